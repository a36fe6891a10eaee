#!/usr/bin/env python3
"""Sessions from Python: whose memory arrays are, what is refused, threads, signals."""
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from package import BUILD, ROOT, address

import numpy as np
import sparkpilot
from sparkpilot import Builder, InputError, Session

MODEL = ROOT / "models/demo_supercombo.onnx"


def doubled(shape=(2, 3), dtype="float32"):
    """y = x + x"""
    b = Builder()
    x = b.input("x", dtype, shape)
    b.output(x + x, "y")
    return b.model()


def same(dtype):
    b = Builder()
    b.output(b.add("Identity", b.input("x", dtype, (2, 4))), "y")
    return b.model()


def heavy(size=900):
    """A run of a tenth of a second or so on one thread."""
    b = Builder()
    x = b.input("x", "float32", (size, size))
    for _ in range(4):
        x = x @ x
    b.output(x, "y")
    return Session(b.model(), threads=1, tune="off")


class Memory(unittest.TestCase):
    def test_inputs_and_outputs_are_the_sessions_own(self):
        session = Session(doubled(), threads=1)
        x = session.inputs["x"]
        self.assertEqual((x.shape, x.dtype, x.flags.writeable, x.flags.owndata), ((2, 3), np.float32, True, False))
        x[...] = np.arange(6).reshape(2, 3)
        session.run()
        y = session.outputs["y"]
        np.testing.assert_array_equal(y, 2 * np.arange(6).reshape(2, 3))
        places = address(session.inputs["x"]), address(session.outputs["y"])
        self.assertEqual(places, (address(x), address(y)))
        x += 1
        session.run()
        self.assertEqual(places, (address(session.inputs["x"]), address(session.outputs["y"])))
        np.testing.assert_array_equal(y, 2 * np.arange(1, 7).reshape(2, 3))  # the next run wrote into it
        session.inputs["x"] += 1
        np.testing.assert_array_equal(x, np.arange(2, 8).reshape(2, 3))
        self.assertEqual((x.strides, y.strides), ((12, 4), (12, 4)))

    def test_dlpack_copies_nothing(self):
        session = Session(doubled(), threads=1)
        taken = np.from_dlpack(session.inputs["x"])
        self.assertEqual(address(taken), address(session.inputs["x"]))
        session.inputs["x"][...] = 3
        np.testing.assert_array_equal(taken, np.full((2, 3), 3))
        session.run()
        self.assertEqual(address(np.from_dlpack(session.outputs["y"])), address(session.outputs["y"]))
        del session
        gc.collect()
        np.testing.assert_array_equal(taken, np.full((2, 3), 3))

    def test_an_array_keeps_the_session(self):
        x = Session(doubled((1000, 1000)), threads=1).inputs["x"]
        part = x[10:20]
        del x
        gc.collect()
        part[...] = 7
        self.assertEqual(part.sum(), 7 * part.size)

    def test_a_call_copies(self):
        session = Session(doubled(), threads=1)
        given = np.ones((2, 3), np.float32)
        y = session(x=given)["y"]
        self.assertTrue(y.flags.owndata)
        session(x=5 * given)
        np.testing.assert_array_equal(y, 2 * given)
        np.testing.assert_array_equal(session({"x": given})["y"], 2 * given)
        np.testing.assert_array_equal(session(x=session.inputs["x"])["y"], 2 * given)
        for wrong in (given, [1]):
            with self.assertRaisesRegex(TypeError, r"takes inputs by name, session\(x=array\) or a dictionary, got (nd|li)"):
                session(wrong)
            with self.assertRaisesRegex(TypeError, "tuning_file: expected a path"):
                Session(doubled(), tuning_file=5)

    def test_shapes_do_not_change_under_an_array(self):
        session = Session(doubled(("n", 3)), threads=1)
        self.assertEqual(session.input_infos["x"].shape, ("n", 3))
        with self.assertRaisesRegex(InputError, 'input "x" has open dimensions'):
            session.inputs["x"]
        session.set_shape("x", (2, 3))
        x = session.inputs["x"]
        with self.assertRaisesRegex(InputError, r'"x" cannot become \[4,3\] while .*\(of this input\): copy or delete'):
            session.set_shape("x", (4, 3))
        session.set_shape("x", (2, 3))
        session.run()
        del x
        y = session.outputs["y"]
        with self.assertRaisesRegex(InputError, r"\(of outputs\)"):
            session(x=np.zeros((4, 3), np.float32))
        del y
        for n in range(1, 40):  # more than a session keeps plans for
            given = np.full((n, 3), n, np.float32)
            np.testing.assert_array_equal(session(x=given)["y"], 2 * given)

    def test_outputs_that_move_are_copies(self):
        b = Builder()
        b.output(b.add("NonZero", b.input("x", "float32", (50,))), "where")
        session = Session(b.model(), threads=1)
        session.inputs["x"][:40] = 1
        session.run()
        where = session.outputs["where"]
        self.assertTrue(where.flags.owndata)
        session.inputs["x"][...] = 0
        session.inputs["x"][49] = 1
        session.run()
        np.testing.assert_array_equal(where[0], np.arange(40))
        np.testing.assert_array_equal(session.outputs["where"][0], [49])

    def test_states(self):
        b = Builder()
        total = b.state(np.zeros(2, np.float32), "total")
        after = total + b.input("x", "float32", (2,))
        b.next(total, after)
        b.output(after, "y")
        session = Session(b.model(), threads=1)
        self.assertEqual(list(session.states), ["total"])
        session.inputs["x"][...] = [1, 2]
        session.run()
        session.run()
        np.testing.assert_array_equal(session.states["total"], [2, 4])
        session.states["total"][...] = 10
        session.run()
        np.testing.assert_array_equal(session.outputs["y"], [11, 12])
        session.reset_states()
        np.testing.assert_array_equal(session.states["total"], [0, 0])

    def test_states_have_names_before_the_shapes_are_known(self):
        b = Builder()
        sum_, last = (b.state(np.zeros((1, 3), np.float32), name) for name in ("sum", "last"))
        x = b.input("x", "float32", ("n", 3))
        b.next(sum_, sum_ + b.add("ReduceSum", x, np.array([0]), keepdims=1))
        b.next(last, sum_ * np.float32(1))
        b.output(sum_ + last, "y")
        session = Session(b.model(), threads=1)
        self.assertEqual(list(session.states), ["last", "sum"])
        with self.assertRaisesRegex(InputError, "before the shapes of all inputs are known"):
            session.states["sum"]
        session(x=np.ones((4, 3), np.float32))
        self.assertEqual(list(session.states), ["last", "sum"])
        np.testing.assert_array_equal(session.states["sum"], [[4, 4, 4]])


class Types(unittest.TestCase):
    def test_numpys(self):
        for dtype in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?".split():
            given = np.array([[0, 1, 2, 3], [1, 0, 1, 0]]).astype(dtype)
            session = Session(same(np.dtype(dtype)), precision="model", threads=1)
            self.assertEqual(session.input_infos["x"].dtype, dtype)
            y = session(x=given)["y"]
            self.assertEqual(y.dtype, given.dtype)
            np.testing.assert_array_equal(y, given)

    def test_results_that_are_constants_do_not_change_the_model(self):
        b = sparkpilot.Builder("constants")
        x, c = b.input("x", "float32", (3,)), b.constant(np.array([1, 2, 3], np.float32))
        b.output(b.add("Identity", c), "anchors")
        b.output(x + c, "y")
        model = b.model()
        session = Session(model, threads=1)
        zeros = np.zeros(3, np.float32)
        session(x=zeros)
        session.outputs["anchors"][...] *= 10
        for each in (session, Session(model, threads=1)):
            result = each(x=zeros)
            np.testing.assert_array_equal(result["y"], [1, 2, 3])
            np.testing.assert_array_equal(result["anchors"], [1, 2, 3])

    def test_ctrl_c_in_a_callers_tensor_goes_on(self):
        class Tensor:
            def __dlpack__(self, *_, **__):
                raise KeyboardInterrupt

            def __dlpack_device__(self):
                return 1, 0

        b = sparkpilot.Builder("copy")
        b.output(b.input("x", "float32", (3,)) + b.constant(np.ones(3, np.float32)), "y")
        with self.assertRaises(KeyboardInterrupt):
            Session(b.model(), threads=1)(x=Tensor())

    def test_others_are_bits(self):
        session = Session(same("bf16"), precision="model", threads=1)
        self.assertEqual(session.input_infos["x"].dtype, "bf16")
        with self.assertRaisesRegex(InputError, r'input "x" is bf16, for which NumPy has no type: bits\(\) gives'):
            session.inputs["x"]
        with self.assertRaisesRegex(InputError, 'input "x" is bf16, for which NumPy has no type'):
            session(x=np.zeros((2, 4), np.float32))
        values = np.array([[0, 1, -2, 0.5], [1, 2, 3, 4]], np.float32)  # which bf16 holds exactly
        session.inputs.bits("x")[...] = values.view(np.uint16)[:, 1::2]
        session.run()
        with self.assertRaisesRegex(InputError, 'output "y" is bf16'):
            session.outputs["y"]
        bits = session.outputs.bits("y")
        np.testing.assert_array_equal((bits.astype(np.uint32) << 16).view(np.float32), values)
        packed = Session(same("uint4"), precision="model", threads=1)
        self.assertEqual(packed.input_infos["x"].dtype, "uint4")
        self.assertEqual((packed.inputs.bits("x").shape, packed.inputs.bits("x").dtype), ((4,), np.uint8))


class Tensor:
    """What another package's tensor shows: DLPack, and nothing of NumPy's."""

    def __init__(self, array, device=(1, 0), fault=None):
        self._array, self._device, self._fault = array, device, fault

    def __dlpack__(self, **kwargs):
        if self._fault:
            raise self._fault
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._device


class TensorsOfOthers(unittest.TestCase):
    def test_are_taken_by_dlpack(self):
        session = Session(doubled(), threads=1)
        given = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(session(x=Tensor(given))["y"], 2 * given)
        b = Builder()
        b.output(b.input("x", "float32", (2, 3)) + b.constant(Tensor(given)), "y")
        np.testing.assert_array_equal(Session(b.model(), threads=1)(x=given)["y"], 2 * given)

    def test_elsewhere_or_broken_are_refused(self):
        session, given = Session(doubled(), threads=1), np.ones((2, 3), np.float32)
        lacks = "requires gradient,\nuse detach()"
        for tensor in (Tensor(given, device=(2, 0), fault=BufferError("memory of a GPU")), Tensor(given, fault=BufferError(lacks)),
                       Tensor(given, fault=RuntimeError("broken"))):
            with self.assertRaisesRegex(InputError, '^input "x": NumPy cannot take this Tensor by DLPack, .*(GPU|grad|broken|device)') as seen:
                session(x=tensor)
            self.assertNotIn("\n", str(seen.exception))

    def test_pytorchs(self):
        try:
            import torch
        except ImportError:
            self.skipTest("this Python has no torch")
        session, given = Session(doubled(), threads=1), torch.arange(6, dtype=torch.float32).reshape(2, 3)
        np.testing.assert_array_equal(session(x=given)["y"], 2 * given.numpy())
        np.testing.assert_array_equal(session(x=given.T.contiguous().T)["y"], 2 * given.numpy())
        for tensor in (torch.ones(2, 3, device="meta"), torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, dtype=torch.bfloat16)):
            with self.assertRaisesRegex(InputError, 'input "x": ') as seen:
                session(x=tensor)
            self.assertNotIn("\n", str(seen.exception))
        taken = torch.from_dlpack(session.inputs["x"])
        self.assertEqual(taken.data_ptr(), address(session.inputs["x"]))
        # Both packages' threads in one process: results are right whichever ran last.
        torch.set_num_threads(2)
        ours, theirs = Session(doubled((512, 512)), threads=2), torch.randn(256, 256)
        want = theirs @ theirs
        for i in range(200):
            self.assertTrue(torch.equal(theirs @ theirs, want))
            self.assertTrue((ours(x=np.full((512, 512), i, np.float32))["y"] == 2 * i).all())


class Refused(unittest.TestCase):
    def test_arrays(self):
        session = Session(doubled(), threads=1)
        good = np.ones((2, 3), np.float32)
        for given, said in [
                (np.ones((2, 3)), r'^input "x": expected float32, got float64 of shape \(2, 3\)$'),
                (good.astype(">f4"), r'^input "x": expected float32, got >f4 of shape'),
                (np.array([["a"] * 3] * 2), r'^input "x": expected float32, got <U1 of shape'),
                (np.array([[None] * 3] * 2), r'^input "x": expected float32, got object of shape'),
                (np.ones((3, 2), np.float32), r'^input "x" has shape \[3,2\], the model expects \[2,3\]$'),
                (np.float32(1), 'expected a NumPy array or a tensor with __dlpack__, got float32'),
                (np.ones((1,) * 9, np.float32), "at most 8 dimensions, got 9"),
                ([[1.0] * 3] * 2, 'input "x": expected a NumPy array or a tensor with __dlpack__, got list'),
                (None, "got NoneType")]:
            with self.assertRaisesRegex(InputError, said):
                session(x=given)
        with self.assertRaisesRegex(InputError, 'no input "z"; it has: x'):
            session(x=good, z=good)
        with self.assertRaisesRegex(InputError, '^input "x" is missing'):
            session()
        with self.assertRaisesRegex(TypeError, r'session.inputs\[\'x\'\]\[...\] = value'):
            session.inputs["x"] = good
        with self.assertRaisesRegex(InputError, 'no input "img"; it has: x'):
            session.inputs["img"]
        with self.assertRaisesRegex(InputError, 'output "y" was asked for before run'):
            Session(doubled()).outputs["y"]
        with self.assertRaises(ValueError):
            session.inputs["x"][...] = np.ones((4, 5))

    def test_what_only_has_gaps_is_taken(self):
        session = Session(doubled(), threads=1)
        wide = np.arange(24, dtype=np.float32).reshape(4, 6)
        for given in (wide[::2, ::2], wide[:2, :3], np.asfortranarray(wide[:2, :3]), wide[1::-1, 2::-1]):
            np.testing.assert_array_equal(session(x=given)["y"], 2 * given)
        frozen = wide[:2, :3].copy()
        frozen.flags.writeable = False
        np.testing.assert_array_equal(session(x=frozen)["y"], 2 * frozen)
        scalar = Session(doubled(()), threads=1)
        self.assertEqual(scalar(x=np.array(2, np.float32))["y"], 4)

    def test_fewer_bits_are_less_exact(self):
        rng = np.random.default_rng(2)
        b = Builder("two layers")
        hidden = b.add("Relu", b.add("MatMul", b.input("x", "float32", (1, 64)), rng.standard_normal((64, 96), np.float32)))
        b.output(b.add("MatMul", hidden, rng.standard_normal((96, 8), np.float32)), "y")
        model, x = b.model(), rng.standard_normal((1, 64), np.float32)
        exact = Session(model, threads=1)(x=x)["y"]
        errors = [np.linalg.norm(Session(model, threads=1, precision=p)(x=x)["y"] - exact) / np.linalg.norm(exact)
                  for p in ("fp16", "fp8", "fp4")]
        self.assertEqual(errors, sorted(errors))
        self.assertGreater(errors[1], 1e-3)
        self.assertLess(errors[2], 0.5)

    def test_options(self):
        model = doubled()
        for options, error, said in [
                ({"precision": "int8"}, InputError, r"^precision: expected fp32, fp16, bf16, fp8, fp4, model, auto, got 'int8'$"),
                ({"threads": -1}, InputError, "threads: expected 0 to 1024, got -1"),
                ({"threads": 10**6}, InputError, "threads: expected 0 to 1024, got 1000000"),
                ({"outputs": 5}, TypeError, "^outputs: expected names, got 5$"),
                ({"threads": "two"}, TypeError, "^threads: expected a number of threads, got 'two'$"),
                ({"dims": {"batch": 2}}, InputError, 'no input has an open dimension named "batch"'),
                ({"dims": 3}, TypeError, "^dims: expected sizes by the names"),
                ({"shapes": {"x": "ab"}}, InputError, r'shapes\["x"\]: expected a shape such as \(1, 3\)'),
                ({"shapes": {"x": (-1, 2)}}, InputError, "-1"),
                ({"device": "tpu"}, InputError, "tpu"),
                ({"keep": [1]}, TypeError, "keep: expected names, got 1"),
                ({"colour": 1}, TypeError, "colour")]:
            with self.assertRaisesRegex(error, said):
                Session(model, **options)
        with self.assertRaisesRegex(TypeError, "model: expected a sparkpilot.Model or the path of an ONNX file, got 3"):
            Session(3)

    def test_kinds_of_errors(self):
        with self.assertRaisesRegex(ValueError, "none.onnx"):
            sparkpilot.load("none.onnx")
        with self.assertRaises(sparkpilot.Error):
            sparkpilot.parse(b"no model")
        self.assertTrue(issubclass(sparkpilot.DeviceError, RuntimeError))
        self.assertTrue(issubclass(sparkpilot.InternalError, sparkpilot.Error))
        if not sparkpilot.hardware.is_nvidia_available():
            with self.assertRaises(sparkpilot.DeviceError):
                Session(doubled(), device="cuda")


class NotMade(unittest.TestCase):
    """What has no object behind it is refused, and does not end the interpreter."""

    def test_a_session_that_was_not_made(self):
        class Early(Session):
            def __init__(self):
                self.threads

        for made in (lambda: Session.__new__(Session).run(), lambda: Session.__new__(Session).inputs["x"], Early):
            self.assertRaises(RuntimeError, made)
        self.assertEqual(repr(Session.__new__(Session)), "<sparkpilot.Session that was not made>")
        try:
            Session("/none.onnx")
        except InputError as error:
            held = error.__traceback__
        self.assertEqual(repr(held.tb_next.tb_frame.f_locals["self"]), "<sparkpilot.Session that was not made>")

    def test_natives(self):
        from sparkpilot import _core
        self.assertRaises(TypeError, _core.Model)
        self.assertRaises(TypeError, lambda: _core.Model.__new__(_core.Model))
        said = subprocess.run([sys.executable, "-c", "import sys; sys.modules['numpy'] = None; import sparkpilot"],
                              capture_output=True, text=True, check=False)
        self.assertIn("numpy", said.stderr.splitlines()[-1])


class Mappings(unittest.TestCase):
    def test_get(self):
        session = Session(doubled(), threads=1)
        self.assertEqual(session.inputs.get("none", 3), 3)
        self.assertEqual(address(session.inputs.get("x")), address(session.inputs["x"]))
        self.assertFalse(session.inputs == session.outputs)
        empty = Session(doubled((0, 3)), threads=1)
        empty.inputs["x"] += 1

    def test_what_has_no_declared_shape(self):
        b = Builder()
        b.output(b.add("NonZero", b.input("x", "float32", (4,))), "where")
        b.output(b.add("ReduceSum", b.input("z", "float32", (4,)), keepdims=0), "sum")
        infos = Session(b.model(), threads=1).output_infos
        self.assertEqual((infos["where"].shape, infos["sum"].shape), (None, ()))

    def test_texts_are_asked_for_in_one_line(self):
        session = Session(doubled(), threads=1)
        for call in (lambda: session.set_shape(5, (1,)), lambda: session.inputs.bits(3), lambda: sparkpilot.parse("text"),
                     lambda: sparkpilot.load(None), lambda: sparkpilot.load("a\0b"), lambda: sparkpilot.load(""),
                     lambda: doubled().save("x.onnx", opset="a")):
            with self.assertRaises((TypeError, InputError)) as seen:
                call()
            self.assertNotIn("\n", str(seen.exception))
            self.assertNotIn("Invoked with", str(seen.exception))


class Options(unittest.TestCase):
    def test_open_dimensions(self):
        model = doubled(("batch", None))
        session = Session(model, dims={"batch": 4}, shapes={"x": (4, 5)}, threads=1)
        self.assertEqual(session.inputs["x"].shape, (4, 5))

    def test_batch_outputs_keep_and_profile(self):
        b = Builder()
        x = b.input("x", "float32", (1, 8))
        twice = b.add("Add", x, x, name="twice")
        b.output(b.add("Exp", twice), "y")
        b.output(b.add("Neg", x), "z")
        self.assertEqual(Session(b.model(), batch=3, threads=1).inputs["x"].shape, (3, 8))
        part = Session(b.model(), outputs="y[:, 2:4]", threads=1)
        self.assertEqual(list(part.outputs), ["y"])
        self.assertEqual(part(x=np.zeros((1, 8), np.float32))["y"].shape, (1, 2))
        session = Session(b.model(), keep="all", profile=True, threads=1)
        session(x=np.ones((1, 8), np.float32))
        self.assertIn("x", session.values())
        profile = session.profile()
        self.assertTrue(all(node["calls"] >= 1 and node["kernel"] for node in profile), profile)

    def test_the_demo_model(self):
        model = sparkpilot.load(MODEL)
        session = Session(str(MODEL), threads=1)
        self.assertEqual([i.name for i in model.inputs], list(session.inputs))
        session.run()
        out, = session.outputs.values()
        self.assertTrue(np.isfinite(out).all())
        slices = model.output_slices
        self.assertIn("plan", slices)
        self.assertEqual(out[0, slices["plan"]].ndim, 1)
        self.assertEqual(session.device, "cpu")
        self.assertEqual(session.threads, 1)
        self.assertGreater(session.arena_bytes, 0)


class Threads(unittest.TestCase):
    def test_two_at_once_is_refused(self):
        session, done, errors = heavy(), threading.Event(), []

        def work():
            while not done.is_set():
                try:
                    session.run()
                except InputError as error:
                    errors.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        while not errors:
            time.sleep(0.01)
        done.set()
        for thread in threads:
            thread.join()
        self.assertIn("the session is in use by another call", errors[0])
        session.run()

    def goes_on_beside(self, call):
        """Whether this thread runs while another is inside of `call`."""
        span, seen = [], []

        def work():
            span.append(time.monotonic())
            call()
            span.append(time.monotonic())

        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            seen.append(time.monotonic())
            time.sleep(0.001)
        thread.join()
        inside = [t for t in seen if span[0] + 0.005 < t < span[1] - 0.005]
        self.assertGreater(len(inside), 2, f"{(span[1] - span[0]) * 1e3:.0f} ms")

    def test_other_threads_go_on_meanwhile(self):
        session = heavy()
        with self.subTest("run"):
            self.goes_on_beside(session.run)
        with self.subTest("a call"):
            given = np.ones((900, 900), np.float32)
            self.goes_on_beside(lambda: session(x=given))
        with self.subTest("loading and compiling"):
            model = Builder()
            x = model.input("x", "float32", (1, 64))
            for _ in range(4000):
                x = model.add("Relu", model.add("MatMul", x, np.eye(64, dtype=np.float32)))
            model.output(x, "y")
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "deep.onnx")
                model.model().save(path)
                self.goes_on_beside(lambda: sparkpilot.load(path))
                loaded = sparkpilot.load(path)
            self.goes_on_beside(lambda: Session(loaded, threads=1, tune="off").compile())

    def test_each_thread_with_its_own(self):
        model, results = doubled((64, 64)), []

        def work(value):
            session = Session(model, threads=1)
            for _ in range(200):
                given = np.full((64, 64), value, np.float32)
                results.append((session(x=given)["y"] == 2 * value).all())

        threads = [threading.Thread(target=work, args=(value,)) for value in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [True] * 800)

    def test_a_daemon_thread_may_outlive_the_interpreter(self):
        for work in ("session_test.heavy(300).run()",
                     "[0 for _ in sparkpilot.FrameReader('synth', camera='qcamera')]", "[0 for _ in sparkpilot.LogReader('synth')]"):
            with tempfile.TemporaryDirectory() as folder, self.subTest(work):
                if "synth" in work:
                    sparkpilot.run("route synth", out=os.path.join(folder, "synth"), seconds=2, qcamera_only=True, quiet=True)
                script = (f"import sys, os; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
                          f"import sparkpilot, session_test, threading, time\nos.chdir({folder!r})\n"
                          f"def go():\n  while True: {work}\n"
                          "for _ in range(3): threading.Thread(target=go, daemon=True).start()\ntime.sleep(0.4)\nprint('end')\n")
                for _ in range(3):
                    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
                    self.assertEqual((done.returncode, done.stdout), (0, "end\n"), done.stderr)

    def test_interrupt(self):
        script = ("import sparkpilot, session_test\ns = session_test.heavy(300)\nprint('ready', flush=True)\n"
                  "while True: s.run()")
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, cwd=os.path.dirname(os.path.abspath(__file__)),
                                   # A shell's background jobs ignore it, and Python leaves it so.
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.assertEqual(process.stdout.readline(), "ready\n")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        self.assertIn("KeyboardInterrupt", said)
        self.assertEqual(process.returncode, -signal.SIGINT)


class Gpu(unittest.TestCase):
    def test_on_an_emulated_gpu(self):
        driver, = list(BUILD.glob("**/emulated_cuda/libcuda.so.1"))[:1] or self.skipTest("there is no emulator")
        if not sparkpilot.run("version")["gpu_code"]:
            self.skipTest("built without nvcc: this program holds no GPU code")
        script = ("import numpy as np, session_test, sparkpilot\n"
                  "from sparkpilot import hardware\n"
                  "s = sparkpilot.Session(session_test.doubled(), device='cuda')\n"
                  "s.inputs['x'][...] = 3\ns.run()\n"
                  "print(s.device, s.nodes_on_cpu, s.outputs['y'].tolist())\n"
                  "gpu = hardware.get_best_gpu()\n"
                  "print(hardware.is_nvidia_available(), gpu.cuda_index, gpu.name, gpu.capability, gpu.multiprocessors)\n"
                  "print(gpu.unified_memory, gpu.supports_nvfp4, hardware.get_nvidia_gpus() == [gpu])\n"
                  "print(hardware.get_recommended_precision(), hardware.HARDWARE.backend, hardware.HARDWARE.hardware_class)\n"
                  "lines = []\n"
                  "s = sparkpilot.Session(session_test.doubled(), device='auto', say=lines.append)\n"
                  "print(s.device, len(lines), 'self-check' in lines[0])\n"
                  "try: sparkpilot.Session(session_test.doubled(), device='auto', say=lambda line: 1 / 0)\n"
                  "except ZeroDivisionError: print('its exception comes through')\n")
        said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120,
                              cwd=os.path.dirname(os.path.abspath(__file__)),
                              env={**os.environ, "LD_LIBRARY_PATH": str(driver.parent), "EMULATED_GPU": "gb10"})
        self.assertEqual(said.stdout, "cuda:0 [] [[6.0, 6.0, 6.0], [6.0, 6.0, 6.0]]\n"
                         "True 0 NVIDIA GB10 (12, 1) 48\nTrue True True\nfp16 cuda nvidia_pc\n"
                         "cuda:0 1 True\nits exception comes through\n", said.stderr)


if __name__ == "__main__":
    unittest.main()
