#!/usr/bin/env python3
"""TensorBoard's own writer and reader, for src/train/event_file_test.cc (pip install tensorboard).

    python tests/reference/tensorboard/events.py write FILE    the golden file that the test compares bytes with
    python tests/reference/tensorboard/events.py read FOLDER   the curves that TensorBoard finds in a folder, as text
"""

import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def write(path):
    def point(step, **values):
        points = [Summary.Value(tag=tag.replace("__", "/"), simple_value=v) for tag, v in values.items()]
        return Event(wall_time=1.7e9 + step, step=step, summary=Summary(value=points))

    events = [
        Event(wall_time=1.7e9, file_version="brain.Event:2"),
        Event(wall_time=1.7e9, step=7, session_log=SessionLog(status=SessionLog.START)),
        point(7, train__loss=0.25, train__rate=1e-4),
        point(300, train__loss=float("inf")),
        point(70000, evaluation__loss=-3.5),
    ]
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString(deterministic=True))


def read(folder):
    found = EventAccumulator(folder)
    found.Reload()
    for tag in sorted(found.Tags()["scalars"]):
        print(tag, " ".join(f"{each.step}:{each.value:g}" for each in found.Scalars(tag)))


{"write": write, "read": read}[sys.argv[1]](sys.argv[2])
