#!/usr/bin/env python3
"""A whole drive computed again with NumPy, frame by frame: the pictures' preparation, what the networks are told of the
past and of the log, and every field of modelV2 and cameraOdometry. Where onnxruntime can be imported, the networks too.

    drive_pipeline.py CASE.json

CASE.json: {"program": sparkpilot, "route": a segment's folder, "size": [width, height] of the device's road camera,
"cameras": {"road": focal length, "wide": focal length or null}, "numbered": whether the pictures hold their number,
"limit": how many frames were driven, or null, "runs": [{"era": "A".."D", "models": [one or two ONNX files], "out": the
segment's folder that `drive --raw` wrote, "dump": that of --dump}]}. Pictures that a run did not dump are taken from the
other runs. Written from openpilot's formulas, not from the program. Exit codes: 0 equal, 1 not.
"""
import functools
import json
import pathlib
import sys

import numpy as np

import frame_numpy
import model_messages
from drive_log import Log, read_events
from parse_outputs import parse

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

# How far onnxruntime may be: it rounds to half precision after every node of a network that computes in it, of which
# the program keeps more. (0.9.7's with its halves made floats: 2e-4, its output's own rounding.)
ALLOWED_L2 = {"A": 2e-2, "B": 1e-2, "C": 1e-3, "D": 1e-3}
ROWS_A_LOOK = 4    # frames between two rows that a network sees, from B on


def last(rows, count, width):
    """The last `count` of `rows`, zeros before the first."""
    out = np.zeros((count, width), np.float32)
    if rows:
        tail = np.array(rows[-count:], np.float32)
        out[count - len(tail):] = tail
    return out


class Frames:
    """Pictures as the networks want them. `pictures[camera][index]` is where one was dumped."""

    def __init__(self, case, log):
        self.log, self.focal, self.size = log, case["cameras"], case["size"]
        self.marks = {mark["segmentId"]: mark for mark in log.road}
        self.pictures = {"road": {}, "wide": {}}
        for run in case["runs"]:
            for camera, found in self.pictures.items():
                for file in sorted(pathlib.Path(run["dump"]).glob(f"*/{camera}.npy")):
                    found.setdefault(int(file.parent.name), file)

    def intrinsics(self, camera, picture):
        scale = picture.shape[1] / self.size[0]
        height = picture.shape[0] * 2 // 3
        return frame_numpy.camera(picture.shape[1], height, self.focal[camera] * scale)

    def mark(self, camera, frame):
        """What the log says of `camera`'s picture that goes with the road frame number `frame`."""
        mark = self.marks[frame]
        return mark if camera == "road" else self.log.beside(mark)

    def wide(self, frame):
        """The camera that feeds the wide input: the road's where there is no other, or not yet."""
        return "wide" if self.focal["wide"] and self.mark("wide", frame) else "road"

    def number_in(self, camera, frame):
        """The number that the test has drawn into a picture: eight blocks, the lowest bit first, black or white."""
        picture = np.load(self.pictures[camera][frame])
        return sum(1 << bit for bit in range(8) if picture[4:12, 16 * bit + 4:16 * bit + 12].mean() > 128)

    @functools.lru_cache(maxsize=None)
    def prepared(self, camera, frame, big, sampling):
        """That picture; `big`: for the wide input. The calibration is the one that holds at the end of its exposure."""
        mark = self.mark(camera, frame)
        picture = np.load(self.pictures[camera][frame])
        rows = picture.shape[0] * 2 // 3
        chroma = picture[rows:].reshape(2, rows // 2, -1)
        model = frame_numpy.BIG_MODEL if big else frame_numpy.ROAD_MODEL
        warp = frame_numpy.warp(self.log.rpy(mark["timestampEof"]), self.intrinsics(camera, picture), model)
        sample = frame_numpy.nearest if sampling == "nearest" else frame_numpy.bilinear
        return frame_numpy.frame([picture[:rows], *chroma], warp.astype(np.float32).ravel(), sample)


class Model:
    """What openpilot's modeld keeps from frame to frame."""

    def __init__(self, era, slices):
        self.era, self.slices = era, slices
        self.desires, self.features, self.curvatures, self.frames = [], [], [], []
        self.previous_desire = 0

    def begin(self, frame, desire):
        """A frame came, whether or not the networks run on it."""
        pulse = np.zeros(8)
        if desire > 0 and desire != self.previous_desire:
            pulse[desire] = 1
        self.previous_desire = desire
        self.desires.append(pulse)
        self.frames.append(frame)

    def pair(self):
        """Numbers of the two frames of a picture input; None: before the first."""
        gap = 1 if self.era == "A" else 4
        return [self.frames[-1 - gap] if len(self.frames) > gap else None, self.frames[-1]]

    def push(self, raw):
        heads = self.heads(raw)
        self.features.append(heads["hidden_state"])
        if "desired_curvature" in heads:
            self.curvatures.append(heads["desired_curvature"])
        return heads

    def heads(self, raw):
        out, at = {}, 0
        for slices, width in self.slices:
            part = parse(raw[None, at:at + width], slices)
            out.update({name: value[0] for name, value in part.items()})
            at += width
        return out

    def context(self, told, raw):
        """Inputs beside the pictures. `raw`: this frame's output, whose features two networks hand on."""
        desires = last(self.desires, 100, 8)
        if self.era != "A":
            desires = desires.reshape(25, ROWS_A_LOOK, 8).max(axis=1)
        if self.era == "A":
            features = last(self.features, 99, 512)
        elif self.era == "D":
            features = last(self.features, 24 * ROWS_A_LOOK, 512)[::ROWS_A_LOOK]
        else:
            features = last([*self.features, self.heads(raw)["hidden_state"]], 97, 512)[::ROWS_A_LOOK]
        curvatures = last(self.curvatures, 100, 1)
        traffic = [float(not told["right_hand_drive"]), float(told["right_hand_drive"])]
        out = {"features_buffer": features, "traffic_convention": traffic}
        out["desire" if self.era in "AB" else "desire_pulse"] = desires
        if self.era in "AB":
            out["prev_desired_curv"] = curvatures if self.era == "A" else curvatures[-97::ROWS_A_LOOK]
            out["lateral_control_params"] = [told["v_ego"], told["steer_delay"]]
        if self.era == "D":
            out["action_t"] = [told["lateral_time"], told["longitudinal_time"]]
        return {name: np.array(value, np.float32)[None] for name, value in out.items()}


class Run:
    def __init__(self, case, run, log, frames):
        self.run, self.log, self.frames = run, log, frames
        self.era, self.dump = run["era"], pathlib.Path(run["dump"])
        self.roles = ["vision", "policy"] if len(run["models"]) == 2 else ["supercombo"]
        self.model = Model(self.era, [log.slices(case["program"], file) for file in run["models"]])
        self.wrong, self.ran, self.l2, self.numbered = [], 0, 0.0, case["numbered"]
        self.sessions = onnxruntime and [onnxruntime.InferenceSession(file) for file in run["models"]]
        self.models = read_events(case["program"], "modelV2", run["out"])
        self.odometry = read_events(case["program"], "cameraOdometry", run["out"])

    def say(self, frame, text):
        self.wrong.append(f"era {self.era}, frame {frame}: {text}")

    def image(self, big):
        sampling = "nearest" if self.era == "D" else "bilinear"
        blank = np.zeros((6, 128, 256), np.uint8)
        return np.concatenate([
            blank if frame is None else
            self.frames.prepared(self.frames.wide(frame) if big else "road", frame, big, sampling)
            for frame in self.model.pair()])[None]

    def check_pictures(self, number):
        for camera in {"road", self.frames.wide(number)}:
            if self.numbered:
                found, expected = self.frames.number_in(camera, number), self.frames.mark(camera, number)["segmentId"]
                if found != expected:
                    self.say(number, f"{camera} picture {found}, expected {expected}")

    def check_inputs(self, number, told, raw):
        names = ("input_imgs", "big_input_imgs") if self.era == "A" else ("img", "big_img")
        expected = {names[0]: self.image(False), names[1]: self.image(True), **self.model.context(told, raw)}
        found = {file.stem.split(".", 1)[1]: np.load(file) for role in self.roles
                 for file in (self.dump / f"{number:05}").glob(f"{role}.*.npy")}
        if found.keys() != expected.keys():
            self.say(number, f"inputs {sorted(found)}, expected {sorted(expected)}")
        for name in found.keys() & expected.keys():
            if found[name].shape != expected[name].shape:
                self.say(number, f"{name}: shape {found[name].shape}, expected {expected[name].shape}")
            elif not np.array_equal(found[name], expected[name].astype(found[name].dtype)):  # 0.9.7's are halves
                at = np.argwhere(found[name] != expected[name].astype(found[name].dtype))
                self.say(number, f"{name}: {len(at)} of {found[name].size} differ, first {at[0]}: "
                                 f"{found[name][tuple(at[0])]}, expected {expected[name][tuple(at[0])]}")

    def check_networks(self, number, raw):
        outputs = []
        for role, session in zip(self.roles, self.sessions):
            inputs = {i.name: np.load(self.dump / f"{number:05}" / f"{role}.{i.name}.npy") for i in session.get_inputs()}
            outputs.append(session.run(None, inputs)[0].ravel())
        expected = np.concatenate(outputs).astype(np.float64)
        l2 = np.linalg.norm(raw - expected) / np.linalg.norm(expected)
        self.l2 = max(self.l2, l2)
        if not l2 < ALLOWED_L2[self.era]:
            self.say(number, f"onnxruntime's outputs are {l2:.2g} away")

    def check(self):
        publisher, action = model_messages.Publisher(), model_messages.Action()
        drops = model_messages.Drops()
        messages = iter(zip(self.models, self.odometry))
        for mark in self.log.road:
            number = mark["segmentId"]
            told = self.log.told(mark["timestampEof"], self.era)
            lost = drops.lost_before(mark["frameId"])
            self.model.begin(number, told["desire"])
            folder = self.dump / f"{number:05}"
            if lost and self.era != "D":  # prepared only
                if folder.exists():
                    self.say(number, "the networks ran although frames were lost before it")
                continue
            raw = np.load(folder / "raw.npy")
            self.check_pictures(number)
            self.check_inputs(number, told, raw)
            if self.sessions and number % 12 == 0:
                self.check_networks(number, raw)
            heads = self.model.push(raw)
            action = model_messages.act(heads, action, told, self.era)
            if "desired_curvature" not in heads:
                self.model.curvatures.append([action.curvature])
            about = {"mark": mark, "extra": self.frames.mark(self.frames.wide(number), number),
                     "calibrated": self.log.calibrated(mark["timestampEof"]), "lost": lost,
                     "drop_percent": drops.percent(), "lane_change": told["lane_change"], "raw": raw}
            model, odometry = next(messages, (None, None))
            for line in model_messages.check(model, odometry, heads, action, about, publisher):
                self.say(number, line)
            self.ran += 1
        if next(messages, None):
            self.wrong.append(f"era {self.era}: more messages than frames")
        how = f"networks within {self.l2:.1e}" if self.sessions else "no onnxruntime: networks were not run again"
        print(f"era {self.era}: {self.ran} frames, {len(self.wrong)} disagreements, {how}")
        return self.wrong


def main():
    case = json.loads(pathlib.Path(sys.argv[1]).read_text())
    log = Log(case["program"], case["route"])
    log.road = log.road[:case["limit"]]
    frames = Frames(case, log)
    wrong = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for run in case["runs"]:
            wrong += Run(case, run, log, frames).check()
    print("\n".join(wrong[:40]))
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main())
