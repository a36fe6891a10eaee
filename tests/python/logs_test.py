#!/usr/bin/env python3
"""Route logs from Python: values as `route dump` prints them, lifetimes, and hostile files."""
import base64
import bz2
import gc
import math
import os
import pathlib
import random
import shutil
import struct
import tempfile
import threading
import unittest
import warnings

from package import ROOT, need_route

need_route()

import numpy as np
from sparkpilot import InputError, LogReader, _route, run

DEMO = ROOT.parent / "shared/assets/route_demo/qlog.bz2"


def same(value, printed):
    """Whether a value is what `route dump` printed of it."""
    if isinstance(value, dict):
        return value.keys() == printed.keys() and all(same(value[key], printed[key]) for key in value)
    if isinstance(value, list):
        return len(value) == len(printed) and all(map(same, value, printed))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode() == printed
    if isinstance(value, float) and not math.isfinite(value):
        return printed is None
    if isinstance(value, float):
        return value in (printed, float(np.float32(printed)))
    return type(value) is type(printed) and value == printed


def event_of(which, *words):
    """A message whose root has that union member, a pointer, which the words follow; docs of Cap'n Proto's encoding."""
    body = struct.pack(f"<QQHxxxxxx{len(words)}Q", 2 << 32 | 1 << 48, 7, which, *words)
    return struct.pack("<II", 0, len(body) // 8) + body


def list_pointer(offset, size, count):
    return offset << 2 | 1 | (count << 3 | size) << 32


class Logs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        run("route synth", out=cls.folder / "routes", seconds=2, seed=3, device="mici", no_video=True, quiet=True)
        cls.segment, = (cls.folder / "routes").iterdir()
        cls.plain = b"".join(event.to_bytes() for event in LogReader(cls.segment))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_values_are_those_of_route_dump(self):
        log, kinds = self.segment / "rlog.zst", {}
        for event in LogReader(log):
            kinds.setdefault(event.which(), []).append(event)
        self.assertEqual(len(kinds["modelV2"]), 40)
        dumped = [kind for kind, events in sorted(kinds.items()) if kind in events[0].to_dict()]
        self.assertGreater(len(dumped), 15)
        for kind in {*dumped[::3], "modelV2", "carState", "initData"}:  # starting the program is what takes the time
            lines = run("route dump", kind, log, whole_data=True, quiet=True)
            self.assertEqual(len(lines), len(kinds[kind]), kind)
            for line, event in zip(lines, kinds[kind]):
                self.assertEqual((line["mono_time_ns"], line["valid"]), (event.logMonoTime, event.valid))
                self.assertTrue(same(event.to_dict(verbose=True)[kind], line[kind]), (event, line))

    def test_a_recorded_log(self):
        if not DEMO.exists():
            self.skipTest(f"there is no {DEMO}")
        self.assertEqual(sum(1 for _ in LogReader(DEMO)), 11388)
        lines = run("route dump", "carEvents", DEMO, quiet=True)
        events = list(LogReader(DEMO).filter("carEvents"))  # by their name of then
        self.assertEqual(len(events), len(lines))
        self.assertTrue(all(same(each.to_list(verbose=True), line["carEvents"]) for each, line in zip(events, lines)))
        self.assertEqual(next(LogReader(DEMO).events("carEvents")).which(), "onroadEventsDEPRECATED")

    def test_fields(self):
        log = LogReader(self.segment)
        event = next(log.events("carState"))
        self.assertEqual((event.which(), type(event.logMonoTime), event.valid), ("carState", int, True))
        self.assertIsInstance(event.carState.vEgo, float)
        self.assertIsInstance(event.carState.cruiseState.enabled, bool)
        self.assertEqual(event.carState.gearShifter, "drive")  # an enum
        self.assertIn("vEgo", dir(event.carState))
        self.assertIn("carState", str(event))
        model = log.first("modelV2")
        x = model.position.x
        self.assertEqual((len(x), x[-1], x[:3], list(x)), (33, x[32], [x[0], x[1], x[2]], [x[i] for i in range(33)]))
        array = np.asarray(x)
        self.assertEqual((array.dtype, array.tolist(), np.asarray(x, np.float64).dtype), (np.float32, list(x), np.float64))
        self.assertEqual(len(model.laneLines), 4)
        self.assertEqual(model.laneLines[1].to_dict()["y"], list(model.laneLines[1].y))
        with self.assertRaises(IndexError):
            x[33]
        with self.assertRaisesRegex(TypeError, "no array"):
            np.asarray(model.laneLines)

    def test_what_is_not_there(self):
        event = next(LogReader(self.segment).events("carState"))
        for name, why in (("modelV2", "Event.modelV2 is not set, carState is"), ("nope", "Event has no field nope")):
            self.assertFalse(hasattr(event, name))
            with self.assertRaisesRegex(AttributeError, why):
                getattr(event, name)
        with self.assertRaisesRegex(InputError, "CarState has no union"):
            event.carState.which()
        with self.assertRaisesRegex(InputError, "CarState is a part of an event"):
            event.carState.to_bytes()
        with self.assertRaisesRegex(InputError, "did you mean carState"):
            next(LogReader(self.segment).events("carStat"))
        self.assertIsNone(LogReader(self.segment).first("thumbnail"))

    def test_pointers_that_were_never_written(self):
        event, = LogReader.from_bytes(event_of(0, 1 << 48, 0))  # initData without anything
        self.assertEqual(event.to_dict()["initData"].get("kernelArgs"), None)
        self.assertEqual(event.to_dict(verbose=True)["initData"]["kernelArgs"], [])
        self.assertEqual((event.initData.version, list(event.initData.kernelArgs)), ("", []))

    def test_an_event_outlives_its_reader(self):
        events = list(LogReader(self.segment))
        last = events[-1].to_dict()
        positions = [event.modelV2.position for event in events if event.which() == "modelV2"]
        expected = [list(position.x) for position in positions]
        del events
        gc.collect()
        self.assertEqual([list(position.x) for position in positions], expected)
        self.assertGreater(len(expected), 30)
        self.assertEqual(list(LogReader.from_bytes(self.plain))[-1].to_dict(), last)

    def test_folders_and_containers(self):
        reader = LogReader(self.segment)
        self.assertEqual(reader.files, [str(self.segment / "rlog.zst")])
        count = sum(1 for _ in reader)
        self.assertEqual(sum(1 for _ in reader), count)  # again from its beginning
        three = self.folder / "three"
        for number, name in enumerate(("rlog", "rlog.bz2", "qlog")):
            (three / str(number)).mkdir(parents=True)
            (three / str(number) / name).write_bytes(bz2.compress(self.plain) if number == 1 else self.plain)
        self.assertEqual(sum(1 for _ in LogReader(three)), 3 * count)
        shutil.rmtree(three / "1")
        with self.assertWarnsRegex(RuntimeWarning, "1 segments are not there"):
            LogReader(three)

    def test_no_log(self):
        for name, content, why in (("rlog", b"", "is empty"), ("qlog", b"<html>", "page of HTML"), ("text", b"text", ""),
                                   ("rlog.bz2", b"BZh91AY&SY", "before its first event"), ("qlog.zst", b"\x28\xb5\x2f\xfd\0", "")):
            with self.subTest(name):
                (self.folder / name).write_bytes(content)
                with self.assertRaisesRegex(InputError, why):
                    list(LogReader(self.folder / name))
                (self.folder / name).unlink()
        odd = self.folder / os.fsdecode(b"no \xff UTF-8")
        odd.write_bytes(self.plain)
        self.assertIsNotNone(LogReader(odd).first("carState"))
        for missing in (self.folder / "nothing", "a2a0ccea32023010|2023-07-27--13-01-19"):
            with self.assertRaises(InputError):
                LogReader(missing, data=self.folder)

    def test_a_cut_log_ends_with_a_warning(self):
        with self.assertWarnsRegex(RuntimeWarning, "the log: cut in the middle of an event, after [0-9]+ events"):
            cut = list(LogReader.from_bytes(self.plain[:len(self.plain) // 2 // 8 * 8 - 8]))
        self.assertEqual(b"".join(event.to_bytes() for event in cut), self.plain[:sum(len(e.to_bytes()) for e in cut)])
        self.assertGreater(len(cut), 100)

    def test_flipped_bits_raise_nothing_else(self):
        rng, damaged = random.Random(1), 0
        part = self.plain[:60_000]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for _ in range(60):
                data = bytearray(part)
                for _ in range(20):
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                try:
                    events = list(LogReader.from_bytes(data))
                except InputError:
                    continue
                for event in events:
                    try:
                        event.to_dict(verbose=True)
                    except InputError as error:
                        self.assertIn("the event is damaged: ", str(error))
                        damaged += 1
        self.assertGreater(damaged, 0)

    def test_lists_that_claim_too_much(self):
        event, = LogReader.from_bytes(event_of(66, list_pointer(0, 0, 2**29 - 1)))  # of structs without bytes
        self.assertEqual(event.which(), "onroadEventsDEPRECATED")
        for read in (lambda: event.onroadEventsDEPRECATED, event.to_dict):
            with self.assertRaisesRegex(InputError, "damaged"):
                read()
        count, size = 5000, 100_000  # pointers to the same text: 500 MB
        words = [1 << 48, list_pointer(0, 6, count), *(list_pointer(count - i - 1, 2, size + 1) for i in range(count))]
        text = struct.pack(f"{size + 8}s", b"x" * size)
        event, = LogReader.from_bytes(event_of(0, *words, *struct.unpack(f"<{len(text) // 8}Q", text)))
        self.assertEqual(event.initData.kernelArgs[7], "x" * size)
        with self.assertRaisesRegex(InputError, "more values than it has bytes for"):
            event.to_dict()

    def test_a_kind_that_the_schema_does_not_have(self):
        event, = LogReader.from_bytes(event_of(5000, 0))
        self.assertEqual((event.which(), event.to_dict()), ("unknown(5002)", {"logMonoTime": 7, "valid": True}))

    def test_threads(self):
        """Reading lets other threads go on, and one iteration is used by one call at a time."""
        refused = []

        def read(log):
            try:
                for _ in log:
                    pass
            except InputError as error:
                refused.append(str(error))

        for _ in range(1000):
            log = _route.Log.of_bytes(self.plain)
            threads = [threading.Thread(target=read, args=[log]) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if refused:
                break
        self.assertIn("the reader is in use by another call", refused[0])


if __name__ == "__main__":
    unittest.main()
