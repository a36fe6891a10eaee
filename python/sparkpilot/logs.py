"""Route logs as openpilot's LogReader gives them.

    from sparkpilot import LogReader

    for event in LogReader("a2a0ccea32023010|2023-07-27--13-01-19"):
        if event.which() == "carState":
            print(event.logMonoTime, event.carState.vEgo)
"""
from __future__ import annotations

import os
import warnings
from typing import Any, Iterator, List as ListOf, Optional, Tuple, Union

from sparkpilot._arguments import path, text
from sparkpilot._native import route as _route

__all__ = ["List", "LogReader", "Struct"]

Struct = _route.Struct
List = _route.List


class LogReader:
    """The events of a route's logs, in the order of the files, which is not exactly that of their times.

    route: a log (rlog or qlog, plain, .bz2 or .zst), the folder of a segment or of a route, or a route's name, as
        `sparkpilot route dump` takes them; of a segment with both logs the rlog, unless the name ends in /q.
    data: the folder in which names are looked up; None: ~/.comma/media/0/realdata.

    Each iteration reads the files anew, event by event; other Python threads go on meanwhile. An event has `which()`,
    `logMonoTime` (ns), `valid` and its contents under the name of its kind; docs/python.md says what Python values the
    fields are. It keeps its own bytes and may outlive the reader. Units are those of openpilot's schema: SI, but
    for names that end in Deg, Percent or the like.

    Raises InputError if nothing is there, or a file is no log. A log that is damaged ends before the damage, with a
    RuntimeWarning that says where, as in openpilot. A missing segment is a RuntimeWarning, too.
    """

    def __init__(self, route: Union[str, os.PathLike[str]], *, data: Union[str, os.PathLike[str], None] = None) -> None:
        self._bytes: Optional[bytes] = None
        files, notes = _route.find_logs(path("route", route), os.fspath(data or ""))
        #: The logs that are read.
        self.files: ListOf[str] = [os.fspath(file) for file in files]
        for note in notes:
            warnings.warn(note, RuntimeWarning, stacklevel=2)

    @classmethod
    def from_bytes(cls, data: Union[bytes, bytearray, memoryview]) -> LogReader:
        """The same of a log's bytes, plain or compressed. They are kept."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data: expected bytes, got {type(data).__name__}")
        reader = cls.__new__(cls)
        reader._bytes, reader.files = bytes(data), []
        return reader

    def __iter__(self) -> Iterator[Struct]:
        return self.events()

    def events(self, kind: Optional[str] = None) -> Iterator[Struct]:
        """The events of one kind ("carState"); others are passed over without making objects of them.

        carEvents and onroadEvents both mean the on-road events of every era. Raises InputError if there is no such kind.
        """
        for name, log in self._open():
            if kind is not None:
                log.only(text("kind", kind))
            yield from log
            if log.damage:
                warnings.warn(f"{name}: {log.damage}", RuntimeWarning, stacklevel=2)

    def _open(self) -> Iterator[Tuple[str, _route.Log]]:
        if self._bytes is not None:
            yield "the log", _route.Log.of_bytes(self._bytes)
        for file in self.files:
            yield file, _route.Log(file)

    def filter(self, kind: str) -> Iterator[Any]:
        """The contents of the events of one kind, without their times: `for state in log.filter("carState")`."""
        for event in self.events(kind):
            yield getattr(event, event.which())

    def first(self, kind: str) -> Any:
        """The contents of the first event of one kind; None if there is none."""
        return next(self.filter(kind), None)

    def __repr__(self) -> str:
        return f"<sparkpilot.LogReader of {len(self.files) if self._bytes is None else 1} logs>"
