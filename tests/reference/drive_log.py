"""What a drive needs of a route's log, as `sparkpilot route dump` prints it: for drive_pipeline.py."""
import bisect
import json
import subprocess

import numpy as np

FRAME, SMOOTHING = 0.05, 0.3  # s
SAME_MOMENT = 25_000_000      # ns between the frames of two cameras


def run(program, *words):
    return subprocess.run([program, *map(str, words)], stdout=subprocess.PIPE, check=True, text=True).stdout


def read_events(program, kind, folder):
    """Every event of a kind: {"mono_time_ns", "valid", KIND: fields}."""
    return [json.loads(line) for line in run(program, "route", "dump", kind, folder, "--quiet", "--whole-data").splitlines()]


def single(value):
    """The float of 32 bits that was printed with the fewest digits, exactly."""
    return float(np.float32(value))


class Series:
    """Values by the time from which they hold."""

    def __init__(self, pairs):
        self.pairs = sorted(pairs, key=lambda pair: pair[0])
        self.times = [time for time, _ in self.pairs]

    def at(self, time, default=None):
        i = bisect.bisect_right(self.times, time)
        return self.pairs[i - 1][1] if i else default


class Log:
    def __init__(self, program, folder):
        def series(kind, take, keep=lambda value: True):
            events = [(event["mono_time_ns"], take(event[kind])) for event in read_events(program, kind, folder)]
            return Series([(time, value) for time, value in events if keep(value)])

        def index(kind):
            marks = [event[kind] for event in read_events(program, kind, folder)]
            return sorted(marks, key=lambda mark: mark["segmentId"])

        self.road, self.wide = index("roadEncodeIdx"), index("wideRoadEncodeIdx")
        # A number that is none is printed as null.
        self.calibration = series("liveCalibration", lambda c: [np.nan if a is None else single(a) for a in c["rpyCalib"]],
                                  lambda rpy: len(rpy) == 3 and np.isfinite(rpy).all())
        self.speed = series("carState", lambda c: c["vEgo"], lambda v: v is not None)
        self.delay = series("liveDelay", lambda d: single(d["lateralDelay"]))
        self.right_hand_drive = series("driverMonitoringState", lambda d: d["isRHD"])
        self.lane_change = series("modelV2", lambda m: (m["meta"]["laneChangeState"], m["meta"]["laneChangeDirection"]))
        car = read_events(program, "carParams", folder)[-1]["carParams"]
        self.steer_delay = single(car["steerActuatorDelay"]) + 0.2
        self.longitudinal_delay = single(car["longitudinalActuatorDelay"])

    @staticmethod
    def slices(program, model):
        info = json.loads(run(program, "model", "info", model, "--json"))
        return {head: tuple(limits) for head, limits in info["output_slices"].items()}, info["outputs"][0]["shape"][-1]

    def calibrated(self, time):
        return self.calibration.at(time) is not None

    def rpy(self, time):
        """Before the first calibration: that one."""
        return self.calibration.at(time, self.calibration.pairs[0][1] if self.calibration.pairs else [0, 0, 0])

    def beside(self, mark):
        """The wide camera's frame of the same moment, else the last one before it; None while there was none."""
        begun = [wide for wide in self.wide if wide["timestampSof"] <= mark["timestampSof"] + SAME_MOMENT]
        return begun[-1] if begun else None

    def told(self, time, era):
        """What the networks and the action are told at a frame's time."""
        state, direction = self.lane_change.at(time, ("off", "none"))
        changing = state in ("laneChangeStarting", "laneChangeFinishing")
        learned = self.delay.at(time)
        lateral = self.steer_delay if learned is None else learned
        # From the exposure's end to the model's answer; mid-2026 adds half the time to the next.
        late = 1.5 * FRAME if era == "D" else FRAME
        return {"v_ego": np.float32(max(0, self.speed.at(time, 0))),
                "right_hand_drive": self.right_hand_drive.at(time, False),
                "desire": {"left": 3, "right": 4}.get(direction, 0) if changing else 0,
                "lane_change": (state, direction),
                "steer_delay": lateral if era == "B" else self.steer_delay,
                "lateral_time": lateral + late,
                "longitudinal_time": self.longitudinal_delay + SMOOTHING + late}
