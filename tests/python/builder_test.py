#!/usr/bin/env python3
"""Graphs built from Python, run and written as ONNX."""
import tempfile
import unittest

import package  # noqa: F401: says why, if there is no module

import numpy as np
import sparkpilot
from sparkpilot import Builder, InputError, Session

RANDOM = np.random.default_rng(1)
A, B, C = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((3, 8), (8, 8), (8, 2)))


def step(b, x, h):
    """h' = tanh(x A + h B + 0.25), y = h' C"""
    memory = b.add("Tanh", x @ A + h @ B + 0.25, name="memory")
    return memory, memory @ C


class Graphs(unittest.TestCase):
    def test_a_layer_with_a_state_and_as_a_file(self):
        b = Builder("layer")
        x = b.input("x", np.float32, (1, 3))
        h = b.state(np.zeros((1, 8), np.float32), "h")
        memory, y = step(b, x, h)
        self.assertEqual((memory.shape, memory.dtype), ((1, 8), np.float32))
        b.next(h, memory)
        b.output(y, "y")
        own = Session(b.model(), threads=1)
        self.assertEqual(b.model().states, ["h"])
        with self.assertRaisesRegex(InputError, "state"):
            b.model().save("/tmp/never.onnx")

        f = Builder("layer")
        x, h = f.input("x", "float32", (1, 3)), f.input("h", "float32", (1, 8))
        memory, y = step(f, x, h)
        f.output(y, "y")
        f.output(memory, "next_h")
        with tempfile.TemporaryDirectory() as folder:
            opset = f.model("layer", {"made": "here"}).save(f"{folder}/layer.onnx")
            self.assertGreater(opset, 6)
            model = sparkpilot.load(f"{folder}/layer.onnx")
        self.assertEqual(model.metadata["made"], "here")
        self.assertEqual(model.name, "layer")
        self.assertEqual([i.name for i in model.inputs], ["x", "h"])
        self.assertEqual(model.inputs[1].shape, (1, 8))
        file, expected = Session(model, threads=1), np.zeros((1, 8), np.float32)
        for run in range(4):
            given = np.sin(np.arange(3, dtype=np.float32) * (run + 1))[None]
            out = file(x=given, h=expected)
            expected = np.tanh(given @ A + expected @ B + np.float32(0.25))
            np.testing.assert_allclose(out["next_h"], expected, atol=1e-6)
            np.testing.assert_allclose(own(x=given)["y"], expected @ C, atol=1e-5)
            expected = out["next_h"]

    def test_attributes_and_several_outputs(self):
        b = Builder()
        x = b.input("x", "float32", (2, 6))
        left, right = b.add("Split", x, np.array([2, 4]), axis=1, outputs=2)
        self.assertEqual((left.shape, right.shape), ((2, 2), (2, 4)))
        b.output(b.add("Transpose", left, perm=[1, 0]), "t")
        b.output(b.add("LeakyRelu", right, alpha=0.5, name="leaky"), "l")
        b.output(b.add("Cast", right, to=7), "c")
        b.output(1 / (-x * 2 + 9), "d")
        given = RANDOM.uniform(-3, 3, (2, 6)).astype(np.float32)
        out = Session(b.model(), threads=1)(x=given)
        np.testing.assert_array_equal(out["t"], given[:, :2].T)
        np.testing.assert_allclose(out["l"], np.where(given > 0, given, given / 2)[:, 2:])
        np.testing.assert_array_equal(out["c"], given[:, 2:].astype(np.int64))
        np.testing.assert_allclose(out["d"], 1 / (9 - 2 * given), rtol=1e-6)

    def test_bodies(self):
        then, other = Builder(), Builder()
        then.output(then.constant(np.array([1.0], np.float32)), "out")
        other.output(other.constant(np.array([2.0], np.float32)), "out")
        b = Builder()
        b.output(b.add("If", b.input("yes", bool, ()), then_branch=then.model(), else_branch=other.model()), "y")
        session = Session(b.model(), threads=1)
        self.assertEqual(session(yes=np.array(True))["y"], 1)
        self.assertEqual(session(yes=np.array(False))["y"], 2)

    def test_open_dimensions_and_other_types(self):
        b = Builder()
        x = b.input("x", "float32", ("batch", None, 2))
        y = x + b.constant([0.5, 1.5])
        self.assertIsNone(y.shape)
        half = b.constant([1.0, 2.0], dtype="bf16")
        self.assertEqual(half.dtype, "bf16")
        b.output(y, "y")
        model = b.model()
        self.assertEqual(model.inputs[0].shape, ("batch", None, 2))
        out = Session(model, threads=1)(x=np.zeros((3, 1, 2), np.float32))["y"]
        np.testing.assert_array_equal(out, np.tile(np.float32([0.5, 1.5]), (3, 1, 1)))

    def test_mistakes_are_told_at_once(self):
        b = Builder("layer")
        x = b.input("x", "float32", (1, 3))
        for work, said in [
                (lambda: b.add("MatMul", x, B, name="wrong"), r"layer/wrong"),
                (lambda: b.add("Matmul", x, A), "MatMul"),
                (lambda: b.add("LeakyRelu", x, alpha="much"), "alpha"),
                (lambda: b.add("LeakyRelu", x, alpha=object()), "attribute alpha: expected an integer, a float"),
                (lambda: b.add("Transpose", x, perm=[0, "a"]), "attribute perm: expected integers, floats or texts"),
                (lambda: b.add("Split", x, outputs=0), "outputs"),
                (lambda: b.input("z", "float99", (1,)), "expected an element type such as"),
                (lambda: b.input("z", "float32", (1, 2.5)), "expected a shape"),
                (lambda: Builder().add("Neg", x), "Neg: the value belongs to another Builder"),
                (lambda: b.next(x, x), '"x" .* is no state'),
                (lambda: b.constant(np.array(["a"])), "array of numbers"),
                (lambda: b.constant(object()), "array of numbers|object"),
                (lambda: b.input("z", "i4", (1,)), '"i4" is 4 bytes to NumPy and 4 bits elsewhere: write "int32" or "int4"'),
                (lambda: b.input("z", "u8", (1,)), 'write "uint64" or "uint8"'),
                (lambda: b.input("z", None, (1,)), "expected an element type .*, got None"),
                (lambda: b.input("x", "float32", (1,)), "there is an input 'x' already"),
                (lambda: b.input("", "float32", (1,)), "an input needs a name"),
                (lambda: Builder(opset=99), "opset: expected 7 to 28, got 99")]:
            with self.assertRaisesRegex(InputError, said) as seen:
                work()
            self.assertNotIn("\n", str(seen.exception))
        for work in (lambda: b.input("z", "float32", 5), lambda: b.input("z", "float32", "abc"), lambda: b.add(5, x),
                     lambda: b.add("Relu", x, name=5), lambda: b.output(x, 5), lambda: b.model(metadata={"a": 1}),
                     lambda: Builder(5), lambda: Builder(opset="a")):
            with self.assertRaises(TypeError) as seen:
                work()
            self.assertNotIn("\n", str(seen.exception))
        b.output(x + 1, "y")
        self.assertEqual(b.model().node_count, 1)
        unfinished = Builder()
        unfinished.output(unfinished.state(np.zeros(1, np.float32), "s"), "y")
        with self.assertRaises(InputError):
            Session(unfinished.model())

    def test_pythons_numbers_keep_their_value_or_are_refused(self):
        def computed(dtype, given, work):
            b = Builder()
            b.output(work(b.input("x", dtype, (1,))), "y")
            return Session(b.model(), precision="model", threads=1)(x=np.array([given], dtype))["y"][0]

        for dtype, given, work, wanted in [("int64", 0, lambda x: x + (2**62 + 1), 2**62 + 1), ("int8", 1, lambda x: x + 100, 101),
                                           ("uint8", 5, lambda x: 255 - x, 250), ("int32", 3, lambda x: x * 2.0, 6),
                                           ("float16", 2, lambda x: x * 0.5, 1), ("float32", 2, lambda x: 1 - x, -1),
                                           ("float64", 0, lambda x: x + float("inf"), np.inf)]:
            self.assertEqual(computed(dtype, given, work), wanted, dtype)
        for dtype, work, said in [("int32", lambda x: x * 0.5, "0.5 is no int32: expected an integer from -2147483648 to"),
                                  ("int8", lambda x: x + 300, "300 is no int8: expected an integer from -128 to 127"),
                                  ("uint8", lambda x: x + -1, "-1 is no uint8"), ("int32", lambda x: x + 2**40, "is no int32"),
                                  ("int32", lambda x: x + float("nan"), "nan is no int32"), ("float16", lambda x: x * 1e6, "beyond float16"),
                                  ("float32", lambda x: x * 10**400, "a number of 401 digits is beyond float32")]:
            with self.assertRaisesRegex(InputError, said):
                computed(dtype, 1, work)

    def test_numbers_beside_open_dimensions(self):
        for dtype in ("float32", "float16", "float64", "int32"):
            b = Builder()
            x = b.input("x", dtype, ("n", 3))
            b.output(1 - (1 - b.add("Identity", x) * 2) + 1, "y")
            given = np.arange(6).reshape(2, 3).astype(dtype)
            out = Session(b.model(), precision="model", dims={"n": 2}, threads=1)(x=given)["y"]
            np.testing.assert_array_equal(out, 2 * given + 1)
        self.assertIsNone(b.add("MaxPool", b.input("image", "float32", (1, 1, "h", 8)), kernel_shape=[2, 2], outputs=2)[1].dtype)
        shape = b.add("Shape", x)
        self.assertIsNone(shape.dtype)
        with self.assertRaisesRegex(InputError, r"2: the type of .* is not known yet: write it as numpy.float32\(2\)"):
            shape * 2


if __name__ == "__main__":
    unittest.main()
