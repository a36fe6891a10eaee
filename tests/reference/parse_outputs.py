#!/usr/bin/env python3
"""What a driving model's flat output means, in NumPy alone: an implementation of its own that
src/route/contract/outputs_test.cc and drive_pipeline.py are held against.

    parse_outputs.py FOLDER [--metadata DIR]

FOLDER holds slices.json ({"network": "C_vision", "slices": {head: [start, stop]}}), raw.npy (cases x values) and, as
HEAD.npy, what the program under test made of every case. Everything is computed again here and compared. The slices are
held against those below, and these against openpilot's own metadata in DIR where there is one.
Exit codes: 0 equal, 1 not.
"""
import argparse
import json
import pathlib
import sys

import numpy as np

VISION = {"meta": (0, 55), "desire_pred": (55, 87), "pose": (87, 99), "wide_from_device_euler": (99, 105),
          "road_transform": (105, 117), "lane_lines": (117, 645), "lane_lines_prob": (645, 653),
          "road_edges": (653, 917)}
VISION_C = {**VISION, "lead": (917, 1061), "lead_prob": (1061, 1064), "hidden_state": (1064, 1576)}
NETWORKS = {
    # 0.9.7; the order of the heads is the file's own affair, this is one.
    "A": {"plan": (0, 4955), "lane_lines": (4955, 5483), "lane_lines_prob": (5483, 5491), "road_edges": (5491, 5755),
          "lead": (5755, 5857), "lead_prob": (5857, 5860), "desire_state": (5860, 5868), "meta": (5868, 5916),
          "desire_pred": (5916, 5948), "pose": (5948, 5960), "wide_from_device_euler": (5960, 5966),
          "sim_pose": (5966, 5978), "road_transform": (5978, 5990), "desired_curvature": (5990, 5992),
          "hidden_state": (5992, 6504)},
    # 0.10.0
    "B_vision": {**VISION, "lead": (917, 1019), "lead_prob": (1019, 1022), "hidden_state": (1022, 1534),
                 "pad": (-2, None)},
    "B_policy": {"plan": (0, 4955), "desire_state": (4955, 4963), "desired_curvature": (4963, 4965), "pad": (-3, None)},
    # 0.10.1 to early 2026
    "C_vision": {**VISION_C, "pad": (0, None)},
    "C_policy": {"plan": (0, 990), "desire_state": (990, 998), "pad": (-2, None)},
    # mid-2026, without and with a head of its own for the action
    "D": {**VISION_C, "plan": (1576, 2566), "desire_state": (2566, 2574), "pad": (-2, None)},
    "D_action": {**VISION_C, "plan": (1576, 2566), "desire_state": (2566, 2574), "action": (2574, 2576)},
}
METADATA = {"driving_vision_metadata_2025-08-19": "B_vision", "driving_policy_metadata_2025-08-19": "B_policy",
            "driving_vision_metadata_2025-10-28": "C_vision", "driving_policy_metadata_2025-10-28": "C_policy",
            "driving_policy_metadata_2025-11-22": "C_policy"}
# Means of a head, and how many hypotheses and selections its form with several has.
GAUSSIAN = {"plan": (33 * 15, 5, 1), "lead": (3 * 6 * 4, 2, 3), "lane_lines": (4 * 33 * 2, 0, 0),
            "road_edges": (2 * 33 * 2, 0, 0), "pose": (6, 0, 0), "road_transform": (6, 0, 0), "sim_pose": (6, 0, 0),
            "wide_from_device_euler": (3, 0, 0)}


def exponential(x):
    """Above 11 it stays: a half-precision exponential would overflow."""
    return np.exp(np.minimum(x.astype(np.float64), 11))


def sigmoid(x):
    return 1 / (1 + exponential(-x))


def softmax(x):
    e = np.exp((x - x.max(axis=-1, keepdims=True)).astype(np.float64))
    return e / e.sum(axis=-1, keepdims=True)


def mixture(raw, values, count, selections):
    """Of each selection the heaviest hypothesis: of equal ones the first of a plan's, the last of a lead's, as the two
    sorts and the one sort of openpilot's parser leave them. Returns means and deviations, cases x (selections * values)."""
    raw = raw.reshape(len(raw), count, -1)
    n = values // selections
    mean, deviation, weight = raw[:, :, :n], exponential(raw[:, :, n:2 * n]), softmax(np.swapaxes(raw[:, :, 2 * n:], 1, 2))
    best = weight.argmax(axis=-1) if selections == 1 else count - 1 - weight[:, :, ::-1].argmax(axis=-1)
    rows = np.arange(len(raw))[:, None]
    return [part[rows, best].reshape(len(raw), -1) for part in (mean, deviation)]


def meta(raw):
    """Within the next 2 to 10 s: gas, brake, steering; braking with 3, 4, 5 m/s^2; pedals pressed."""
    p = sigmoid(raw)
    older = p.shape[1] == 48
    stride, end = (7, 36) if older else (6, 31)
    names = ("gas_disengage", "brake_disengage", "steer_override", "hard_brake_3", "hard_brake_4", "hard_brake_5")
    out = {name: p[:, 1 + i:end:stride] for i, name in enumerate(names)}
    out["engaged"] = p[:, :1]
    out["gas_press"] = p[:, 7:36:7] if older else p[:, 31:55:4]
    if not older:
        out["brake_press"] = p[:, 32:55:4]
    return out


def parse(raw, slices):
    """raw: cases x values. Every head by name, deviations as NAME_std."""
    out = {}
    for head, (start, stop) in slices.items():
        part = raw[:, start:stop]
        if head in GAUSSIAN:
            values, count, selections = GAUSSIAN[head]
            if part.shape[1] == 2 * values:
                out[head], out[f"{head}_std"] = part[:, :values], exponential(part[:, values:])
            else:
                out[head], out[f"{head}_std"] = mixture(part, values, count, selections)
        elif head == "lane_lines_prob":
            out[head] = sigmoid(part)[:, 1::2]
        elif head == "lead_prob":
            out[head] = sigmoid(part)
        elif head == "meta":
            out.update(meta(part))
        elif head in ("desire_state", "desire_pred"):
            out[head] = softmax(part.reshape(len(part), -1, 8)).reshape(len(part), -1)
        elif head in ("action", "hidden_state"):
            out[head] = part
        elif head == "desired_curvature":  # its deviation is read by nobody
            out[head] = part[:, :1]
    return out


def compare(name, ours, theirs):
    """A line for each disagreement. NaN and infinity have to be where they are here."""
    if ours.shape != theirs.shape:
        return [f"{name}: shape {theirs.shape}, expected {ours.shape}"]
    good = np.isclose(theirs, ours, rtol=2e-6, atol=1e-37, equal_nan=True)
    lines = [f"{name}{list(at)}: {theirs[tuple(at)]!r}, expected {ours[tuple(at)]!r}" for at in np.argwhere(~good)[:3]]
    return lines + ([f"{name}: {np.sum(~good)} of {good.size} values differ"] if lines else [])


def check_metadata(folder):
    wrong = []
    for file, network in METADATA.items():
        path = folder / f"{file}.json"
        if path.exists():
            slices = {k: tuple(v) for k, v in json.loads(path.read_text())["output_slices"].items()}
            if slices != NETWORKS[network]:
                wrong.append(f"{path}: {slices}, expected {NETWORKS[network]}")
    return wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--metadata", type=pathlib.Path)
    options = arguments.parse_args()
    wrong = check_metadata(options.metadata) if options.metadata else []
    case = json.loads((options.folder / "slices.json").read_text())
    slices = {head: tuple(limits) for head, limits in case["slices"].items()}
    if slices != NETWORKS[case["network"]]:
        wrong.append(f"{case['network']}: slices {slices}, expected {NETWORKS[case['network']]}")
    with np.errstate(invalid="ignore"):  # -inf less -inf, as some cases want it
        ours = parse(np.load(options.folder / "raw.npy"), slices)
    theirs = {path.stem: np.load(path) for path in options.folder.glob("*.npy") if path.stem != "raw"}
    if ours.keys() != theirs.keys():
        wrong.append(f"heads {sorted(theirs)}, expected {sorted(ours)}")
    for name in sorted(ours.keys() & theirs.keys()):
        wrong += compare(name, ours[name], theirs[name])
    print("\n".join(wrong) if wrong else f"{case['network']}: {len(ours)} heads are equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
