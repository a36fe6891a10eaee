#!/usr/bin/env python3
"""Every field of every event as pycapnp decodes it, with which openpilot reads its logs, from the same bytes by the same schema."""
import bz2
import pathlib
import struct
import tempfile
import unittest

from package import ROOT, need, need_route

need_route()
need("capnp", "zstandard")

import capnp
import zstandard
from sparkpilot import LogReader, run

DEMO = ROOT.parent / "shared/assets/route_demo/qlog.bz2"
SCHEMA = ROOT / "src/route/log/schema/log.capnp"

capnp.remove_import_hook()
Event = capnp.load(str(SCHEMA), imports=[str(pathlib.Path(capnp.__file__).parent.parent)]).Event  # its own capnp/c++.capnp


def set_member(fields):
    """The member of a pycapnp struct's union that is set; None where the schema does not have it, or there is no union."""
    if not fields.schema.union_fields:
        return None
    try:
        return str(fields.which())
    except capnp.KjException:
        return None


def names_of(fields):
    """Of a pycapnp struct's fields: those that are set and that the schema has a type for."""
    member = set_member(fields)
    names = [*fields.schema.non_union_fields, *([member] if member else [])]
    kinds = {name: fields.schema.fields[name].proto for name in names}
    return [name for name in names if kinds[name].which() == "group" or kinds[name].slot.type.which() != "anyPointer"]


def enumerant(value):
    """Its name; its number where the schema has no name for it."""
    try:
        return str(value)
    except RuntimeError:
        return value.raw


class Comparison:
    """Walks what pycapnp has, and beside it ours by attributes and indices and ours as to_dict() copied it."""

    def __init__(self):
        self.kinds, self.types, self.values = set(), set(), 0

    def equal(self, where, ours, theirs):
        both_nan = isinstance(theirs, float) and theirs != theirs and ours != ours
        if type(ours) is not type(theirs) or (ours != theirs and not both_nan):
            raise AssertionError(f"{where}: expected {theirs!r}, as pycapnp has it, got {ours!r}")

    def events(self, data, ours):
        theirs = list(Event.read_multiple_bytes(data))
        self.equal("events", len(ours), len(theirs))
        for index, (event, other) in enumerate(zip(ours, theirs)):
            kind = set_member(other)
            if kind:
                self.equal(f"event {index}: which()", event.which(), kind)
            elif not event.which().startswith("unknown("):
                raise AssertionError(f"event {index}: expected a kind that the schema does not have, got {event.which()}")
            self.kinds.add(event.which())
            self.fields(f"event {index}: {event.which()}", event, event.to_dict(verbose=True), other)

    def fields(self, where, ours, copy, theirs):
        names = names_of(theirs)
        self.equal(where, sorted(copy), sorted(names))
        for name in names:
            self.value(f"{where}.{name}", getattr(ours, name), copy[name], getattr(theirs, name))

    def value(self, where, ours, copy, theirs):
        if isinstance(theirs, capnp.lib.capnp._DynamicStructReader):
            self.fields(where, ours, copy, theirs)
        elif isinstance(theirs, capnp.lib.capnp._DynamicListReader):
            self.equal(where, (len(ours), len(copy)), (len(theirs), len(theirs)))
            for index, each in enumerate(theirs):
                self.value(f"{where}[{index}]", ours[index], copy[index], each)
        else:
            self.types.add(type(theirs).__name__)
            self.values += 1
            expected = enumerant(theirs) if isinstance(theirs, capnp.lib.capnp._DynamicEnum) else theirs
            self.equal(where, ours, expected)
            self.equal(where, copy, expected)


class Pycapnp(unittest.TestCase):
    def test_a_synthetic_route(self):
        with tempfile.TemporaryDirectory() as folder:
            run("route synth", out=folder, seconds=1, seed=3, no_video=True, quiet=True)
            log, = pathlib.Path(folder).glob("*/rlog.zst")
            with log.open("rb") as file:
                data = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
            compared = Comparison()
            compared.events(data, list(LogReader(log)))
        self.assertGreater(compared.values, 20_000)
        self.assertTrue({"modelV2", "carState", "initData", "can"} <= compared.kinds, compared.kinds)
        self.assertTrue({"bool", "int", "float", "str", "bytes", "_DynamicEnum"} <= compared.types, compared.types)

    def test_a_recorded_log(self):
        if not DEMO.exists():
            self.skipTest(f"there is no {DEMO}")
        compared = Comparison()
        compared.events(bz2.decompress(DEMO.read_bytes()), list(LogReader(DEMO)))
        self.assertGreater(compared.values, 300_000)
        self.assertGreater(len(compared.kinds), 30)

    def test_what_the_schema_does_not_have(self):
        """A kind of a later openpilot, and a value of an enum of one."""
        message = Event.new_message(logMonoTime=7, valid=True)
        message.init("carState").gearShifter = "reverse"
        data = message.to_bytes()
        Comparison().events(data, list(LogReader.from_bytes(data)))
        # One segment: its table, the root's pointer, the event's two words and pointer, the words of carState.
        for place, of in ((24, "which"), (50, "gearShifter")):
            later = bytearray(data)
            struct.pack_into("<H", later, place, 5000)
            event, = LogReader.from_bytes(later)
            other, = Event.read_multiple_bytes(bytes(later))
            if of == "which":
                self.assertEqual((event.which(), set_member(other)), ("unknown(5002)", None))
            else:
                self.assertEqual((event.carState.gearShifter, other.carState.gearShifter.raw), (5000, 5000))
            Comparison().events(bytes(later), [event])


if __name__ == "__main__":
    unittest.main()
