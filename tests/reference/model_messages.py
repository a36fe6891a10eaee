"""modelV2 and cameraOdometry as openpilot fills them from parsed outputs, and the action: for drive_pipeline.py."""
import base64
import dataclasses

import numpy as np

TIMES = 10 * (np.arange(33) / 32) ** 2
DISTANCES = 192 * (np.arange(33) / 32) ** 2
GREEN, YELLOW = 0.01165, 0.06157
BRAKE_5, BRAKE_3 = np.array([.05, .05, .15, .15, .15], np.float32), np.array([.7, .7], np.float32)


@dataclasses.dataclass
class Action:
    curvature: float = 0.0
    acceleration: float = 0.0
    should_stop: bool = False


def act(heads, previous, told, era):
    plan = np.float32(heads["plan"]).astype(np.float64).reshape(33, 15)
    t, v_ego = told["longitudinal_time"], float(told["v_ego"])
    v_then, v_later = np.interp([t, t + 1], TIMES, plan[:, 3])
    acceleration, stop = 2 * (v_then - plan[0, 3]) / t - plan[0, 6], v_then < 0.05 and v_later < 0.05
    v, lateral = max(v_ego, 1.0), told["lateral_time"]
    curvature = 2 * np.interp(lateral, TIMES, plan[:, 11]) / (v * lateral) - plan[0, 14] / v
    if "action" in heads:
        curvature, acceleration = heads["action"][0] / v ** 2, heads["action"][1]
        stop = v_ego < 0.3 and acceleration < 0.1
    if "desired_curvature" in heads:
        curvature = heads["desired_curvature"][0]
    if v_ego <= 0.3 and era != "A":  # 0.9.7 passed its head on, whatever the speed
        curvature = previous.curvature
    alpha = 1 - np.exp(-0.05 / 0.3)
    acceleration = alpha * acceleration + (1 - alpha) * previous.acceleration
    return Action(float(np.float32(curvature)), float(np.float32(acceleration)), bool(stop))


class Drops:
    """Frames lost, through a filter of 10 s that begins with the eleventh frame."""

    def __init__(self):
        self.previous, self.count, self.filtered = None, 0, 0.0

    def lost_before(self, frame_id):
        lost = 0 if self.previous is None else max(0, frame_id - self.previous - 1)
        self.previous = frame_id
        alpha = 0.05 / (10 + 0.05)
        self.filtered = (1 - alpha) * self.filtered + alpha * min(lost, 10)
        if self.count < 10:
            self.filtered = 0.0
        self.count += 1
        return lost

    def percent(self):
        return 100 * self.filtered / (1 + self.filtered)


class Publisher:
    """Confidence and the hard-brake warning look back."""

    def __init__(self):
        self.disengage = np.zeros((5, 5))
        self.brake_5, self.brake_3 = np.zeros(5), np.zeros(2)

    def hard_brake(self, heads):
        self.brake_5 = np.append(self.brake_5[1:], heads["hard_brake_5"][0])
        self.brake_3 = np.append(self.brake_3[1:], heads["hard_brake_3"][0])
        return bool((self.brake_5 > BRAKE_5).all() and (self.brake_3 > BRAKE_3).all())

    def confidence(self, heads, frame_id):
        if frame_id % 40 == 0:
            keep = [1 - heads[name] for name in ("brake_disengage", "gas_disengage", "steer_override")]
            by_then = 1 - keep[0] * keep[1] * keep[2]
            in_slice = np.append(by_then[0], np.diff(by_then) / (1 - by_then[:-1]))
            self.disengage = np.vstack([self.disengage[1:], in_slice])
        score = np.trace(self.disengage[:, ::-1]) / 5
        return "green" if score < GREEN else "yellow" if score < YELLOW else "red"


def line_times(plan):
    """When the plan reaches each distance of a line; NaN behind the first that it does not reach."""
    x, out = plan[:, 0].astype(np.float64), np.full(33, np.nan)
    out[0] = 0
    for line in range(1, 33):
        beyond = np.flatnonzero(~(x[1:] < DISTANCES[line]))
        if not len(beyond):
            out[line] = TIMES[-1]
            break
        i = beyond[0]
        step = x[i + 1] - x[i]
        share = (DISTANCES[line] - x[i]) / step if abs(step) > 1e-9 else np.nan
        out[line] = share * TIMES[i + 1] + (1 - share) * TIMES[i]
    return out


def plan_fields(heads):
    plan, deviation = heads["plan"].reshape(33, 15), heads["plan_std"].reshape(33, 15)
    out = {}
    for i, name in enumerate(("position", "velocity", "acceleration", "orientation", "orientationRate")):
        out[f"{name}.t"] = TIMES
        for axis, column in zip("xyz", range(3 * i, 3 * i + 3)):
            out[f"{name}.{axis}"] = plan[:, column]
            if name == "position":
                out[f"{name}.{axis}Std"] = deviation[:, column]
    own = "sim_pose" in heads
    for name, at, column in (("trans", 0, 3), ("rot", 3, 12)):
        out[f"temporalPose.{name}"] = heads["sim_pose"][at:at + 3] if own else plan[0, column:column + 3]
        out[f"temporalPose.{name}Std"] = heads["sim_pose_std"][at:at + 3] if own else deviation[0, column:column + 3]
    return out


def scene_fields(heads):
    out, times = {}, line_times(heads["plan"].reshape(33, 15))
    for name, stds, head, count in (("laneLines", "laneLineStds", "lane_lines", 4),
                                    ("roadEdges", "roadEdgeStds", "road_edges", 2)):
        lines = heads[head].reshape(count, 33, 2)
        for i, line in enumerate(lines):
            out |= {f"{name}.{i}.t": times, f"{name}.{i}.x": DISTANCES, f"{name}.{i}.y": line[:, 0],
                    f"{name}.{i}.z": line[:, 1]}
        out[stds] = heads[f"{head}_std"].reshape(count, 33, 2)[:, 0, 0]
    out["laneLineProbs"] = heads["lane_lines_prob"]
    leads, deviations = heads["lead"].reshape(3, 6, 4), heads["lead_std"].reshape(3, 6, 4)
    for i in range(3):
        out |= {f"leadsV3.{i}.t": [0, 2, 4, 6, 8, 10], f"leadsV3.{i}.prob": heads["lead_prob"][i],
                f"leadsV3.{i}.probTime": 2 * i}
        for column, name in enumerate("xyva"):
            out[f"leadsV3.{i}.{name}"] = leads[i, :, column]
            out[f"leadsV3.{i}.{name}Std"] = deviations[i, :, column]
    return out


def meta_fields(heads):
    out = {"engagedProb": heads["engaged"][0], "desireState": heads["desire_state"],
           "desirePrediction": heads["desire_pred"], "disengagePredictions.t": [2, 4, 6, 8, 10]}
    for field, head in (("brakeDisengage", "brake_disengage"), ("gasDisengage", "gas_disengage"),
                        ("steerOverride", "steer_override"), ("brake3MetersPerSecondSquared", "hard_brake_3"),
                        ("brake4MetersPerSecondSquared", "hard_brake_4"),
                        ("brake5MetersPerSecondSquared", "hard_brake_5"), ("gasPress", "gas_press"),
                        ("brakePress", "brake_press")):
        out[f"disengagePredictions.{field}Probs"] = heads.get(head, [])
    return {f"meta.{name}": value for name, value in out.items()}


def flat(value, path=""):
    """Leaves by their path; a list of numbers is one leaf."""
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        parts = enumerate(value)
    else:
        return {path[1:]: value}
    return {k: v for name, part in parts for k, v in flat(part, f"{path}.{name}").items()}


def compare(found, expected, left_empty):
    """Lines for what differs; a field that is not expected has to be empty."""
    lines = []
    for name, value in expected.items():
        theirs = found.pop(name, "nothing")
        if isinstance(value, (str, bool, int)):
            same = theirs == value
        else:
            want = np.asarray(value, np.float64)
            have = np.array([np.nan if v is None else v for v in np.atleast_1d(np.array(theirs, object))], object)
            # A short lateral time makes a difference of large numbers of the curvature.
            near = 2e-5 if name.startswith("action.") or name.endswith("s.t") or ".t" == name[-2:] else 3e-6
            same = have.size == want.size and all(isinstance(v, (int, float)) for v in have) and np.allclose(
                have.astype(np.float64), want.ravel(), rtol=near, atol=1e-7, equal_nan=True)
        if not same:
            lines.append(f"{name}: {str(theirs)[:160]}, expected {str(value)[:160]}")
    for name, value in found.items():
        if name not in left_empty and value not in (0, False, "", [], {}, None, "unknown", "none"):
            lines.append(f"{name}: {str(value)[:80]}, expected to be left empty")
    return lines


def check(model, odometry, heads, action, about, publisher):
    if model is None:
        return ["no message for it"]
    mark, raw = about["mark"], about["raw"]
    fields = {"frameId": mark["frameId"], "frameIdExtra": about["extra"]["frameId"],
              "timestampEof": mark["timestampEof"], "frameDropPerc": float(about["drop_percent"]),
              **plan_fields(heads), **scene_fields(heads), **meta_fields(heads),
              "meta.hardBrakePredicted": publisher.hard_brake(heads),
              "meta.laneChangeState": about["lane_change"][0], "meta.laneChangeDirection": about["lane_change"][1],
              "confidence": publisher.confidence(heads, mark["frameId"]),
              "action.desiredCurvature": action.curvature, "action.desiredAcceleration": action.acceleration,
              "action.shouldStop": action.should_stop}
    lines = [] if (model["mono_time_ns"], model["valid"]) == (mark["timestampEof"], about["calibrated"]) else [
        f"modelV2 at {model['mono_time_ns']}, valid {model['valid']}, expected {mark['timestampEof']}, {about['calibrated']}"]
    found = flat(model["modelV2"])
    if base64.b64decode(found.pop("rawPredictions")) != raw.tobytes():
        lines.append("rawPredictions are not the networks' outputs")
    if not 0 < found.pop("modelExecutionTime") < 60:
        lines.append("modelExecutionTime is no time")
    lines += compare(found, fields, ())
    pose = {"frameId": mark["frameId"], "timestampEof": mark["timestampEof"]}
    for field, head, part in (("trans", "pose", slice(0, 3)), ("rot", "pose", slice(3, 6)),
                              ("wideFromDeviceEuler", "wide_from_device_euler", slice(0, 3)),
                              ("roadTransformTrans", "road_transform", slice(0, 3))):
        pose[field], pose[f"{field}Std"] = heads[head][part], heads[f"{head}_std"][part]
    valid = about["calibrated"] and about["lost"] == 0
    if odometry["valid"] != valid:
        lines.append(f"cameraOdometry is valid: {odometry['valid']}, expected {valid}")
    return lines + [f"cameraOdometry {line}" for line in compare(flat(odometry["cameraOdometry"]), pose, ())]
