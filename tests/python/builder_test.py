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
                (lambda: b.constant(object()), "array of numbers|object")]:
            with self.assertRaisesRegex(InputError, said):
                work()
        b.output(x + 1, "y")
        self.assertEqual(b.model().node_count, 1)
        unfinished = Builder()
        unfinished.output(unfinished.state(np.zeros(1, np.float32), "s"), "y")
        with self.assertRaises(InputError):
            Session(unfinished.model())


if __name__ == "__main__":
    unittest.main()
