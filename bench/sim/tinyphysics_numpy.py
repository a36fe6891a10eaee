#!/usr/bin/env python3
"""TinyPhysics rollouts in NumPy and ONNX Runtime, many routes at once, written apart from src/sim/tinyphysics.cc.

    PYTHON bench/sim/tinyphysics_numpy.py --goldens tests/reference/tinyphysics     # after a change of the terms
    PYTHON bench/sim/tinyphysics_numpy.py --routes DIR --count 200                  # routes for comparisons
    PYTHON bench/sim/tinyphysics_numpy.py --rollout MODEL FILE... [--batch 1024]    # costs as JSON, and the time

PYTHON: one with numpy, onnx and onnxruntime. `--goldens` writes `plant.onnx`, a network of some nodes with TinyPhysics'
inputs and outputs, `other_plant.onnx`, which has other names, lengths, types and bins, and the tokens and costs of some routes in it and in the real network (--model, if it is there).
"""
import argparse
import csv
import hashlib
import json
import os
import pathlib
import sys
import time

import numpy
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = pathlib.Path(os.environ.get("SPARKPILOT_ASSETS", ROOT / "../shared/assets")) / "controls_challenge"
START, END = 100, 500
CONTROLLERS = {"pid": (0.195, 0.100, -0.053), "zero": (0.0, 0.0, 0.0)}


def seed_of(path):
    return int(hashlib.md5(path.encode()).hexdigest(), 16) % 10**4


# --- routes

def integer_route(number, rows=520, steer_to=110):
    """A route's text made of integers alone, so that a test can write the same (src/sim/tinyphysics_test.cc)."""
    state, lines = number, ["t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand"]

    def draw(below):
        nonlocal state
        state = (state * 1103515245 + 12345) % 2**31
        return state // 65536 % below

    speed, acceleration, roll, target, goal = 15000 + draw(15000), 0, 0, 0, 0

    def thousandths(value):
        return f"{'-' if value < 0 else ''}{abs(value) // 1000}.{abs(value) % 1000:03d}"

    for row in range(rows):
        if row % 40 == 0:
            goal = draw(4000) - 2000
        acceleration = max(-2000, min(2000, acceleration + draw(401) - 200))
        speed = max(1000, min(40000, speed + (acceleration + 5) // 10))
        roll = max(-60, min(60, roll + draw(9) - 4))
        target += (goal - target) // 16 + draw(21) - 10
        steer = thousandths(target // 3 + draw(11)) if row < steer_to else ""
        lines.append(",".join([f"{row // 10}.{row % 10}", thousandths(speed), thousandths(acceleration),
                               thousandths(roll), thousandths(target), steer]))
    return "\n".join(lines) + "\n"


def smooth_route(random, rows=600):
    """A drive of curves and straights, as the challenge's routes look."""
    t = numpy.arange(rows) * 0.1
    speed = numpy.clip(random.uniform(3, 33) + sum(random.uniform(0, 2) * numpy.sin(t * f + random.uniform(0, 6))
                                                   for f in random.uniform(0.05, 0.5, 3)), 0, 40)
    curve = sum(random.uniform(0, 1.0) * numpy.sin(t * f + random.uniform(0, 6)) for f in random.uniform(0.05, 1.5, 4))
    roll = sum(random.uniform(0, 0.02) * numpy.sin(t * f + random.uniform(0, 6)) for f in random.uniform(0.02, 0.3, 2))
    steer = curve * random.uniform(0.1, 0.4) + random.normal(0, 0.01, rows)
    return t, speed, numpy.gradient(speed, 0.1), roll, curve + random.normal(0, 0.02, rows), steer


def random_route(random, rows=600):
    """Random walks: nothing that a car would do."""
    def walk(size, low, high):
        return numpy.clip(numpy.cumsum(random.normal(0, size, rows)), low, high)
    return (numpy.arange(rows) * 0.1, numpy.clip(20 + walk(0.5, -30, 30), 0, 45), walk(0.3, -4, 4),
            walk(0.01, -0.2, 0.2), walk(0.3, -4, 4), walk(0.2, -2.4, 2.4))


def write_routes(folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    demo = next(ASSETS.glob("*.csv"), None)
    for k in range(count):
        if k == 0 and demo:
            (folder / "00000.csv").write_text(demo.read_text())
            continue
        random = numpy.random.default_rng(k)
        columns = (smooth_route if k % 2 else random_route)(random, int(random.integers(500, 620)))
        with open(folder / f"{k:05d}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["t", "vEgo", "aEgo", "roll", "targetLateralAcceleration", "steerCommand"])
            for row, values in enumerate(zip(*columns)):
                steer = repr(float(values[5])) if row < 100 else ""
                writer.writerow([*(repr(float(value)) for value in values[:5]), steer])


def read_route(lines):
    rows = list(csv.DictReader(lines))

    def column(name):
        return numpy.array([float(row[name]) if row[name] else numpy.nan for row in rows])
    return {"roll_lataccel": numpy.sin(column("roll")) * 9.81, "v_ego": column("vEgo"), "a_ego": column("aEgo"),
            "target": column("targetLateralAcceleration"), "steer": -column("steerCommand")}


# --- rollouts

class Pid:
    def __init__(self, gains, count):
        self.p, self.i, self.d = gains
        self.integral, self.error = numpy.zeros(count), numpy.zeros(count)

    def update(self, target, current):
        error = target - current
        self.integral += error
        change, self.error = error - self.error, error
        return self.p * error + self.i * self.integral + self.d * change


def softmax(x):
    e = numpy.exp(x - numpy.max(x, axis=-1, keepdims=True))
    return e / numpy.sum(e, axis=-1, keepdims=True)


class Network:
    """A network of the kind: its inputs by their ranks, and bins from -most to most m/s^2."""

    def __init__(self, session, most=5):
        self.session = session
        self.states, self.tokens = sorted(session.get_inputs(), key=lambda value: -len(value.shape))
        self.context, self.fixed = self.states.shape[1], self.states.shape[0]
        self.bins = numpy.linspace(-most, most, session.get_outputs()[0].shape[-1])

    def logits(self, states, tokens):
        """Of the last position, [routes, bins]."""
        tokens = tokens.astype(numpy.int32 if self.tokens.type == "tensor(int32)" else numpy.int64)
        step = self.fixed if isinstance(self.fixed, int) else len(states)
        out = []
        for i in range(0, len(states), step):
            fed = [numpy.concatenate([part[i:i + step], part[:1].repeat(max(i + step - len(part), 0), 0)])
                   for part in (states.astype(numpy.float32), tokens)]
            logits = self.session.run(None, {self.states.name: fed[0], self.tokens.name: fed[1]})[0]
            out.append((logits[:, -1] if logits.ndim == 3 else logits)[:len(states) - i])
        return numpy.concatenate(out)


def rollout(network, routes, seeds, gains, batch=1024, end=END):
    """Tokens [routes, steps], margins of each draw to its bin's edges, and costs. Routes have at least `end` rows."""
    if len(routes) > batch:
        parts = [rollout(network, routes[i:i + batch], seeds[i:i + batch], gains, batch, end)
                 for i in range(0, len(routes), batch)]
        return [numpy.concatenate(part) for part in zip(*parts)]
    count = len(routes)
    get = {name: numpy.stack([route[name][:end] for route in routes]) for name in routes[0]}
    context, bins = network.context, network.bins
    numbers = numpy.stack([numpy.random.RandomState(seed).random_sample(end - context) for seed in seeds])
    states = numpy.stack([get["steer"], get["roll_lataccel"], get["v_ego"], get["a_ego"]], axis=-1)
    lataccel = get["target"].copy()
    tokens, margins = numpy.zeros((count, end - START), numpy.int64), numpy.zeros((count, end - START))
    controller = Pid(gains, count)
    for step in range(context, end):
        action = controller.update(get["target"][:, step], lataccel[:, step - 1])
        if step < START:
            action = get["steer"][:, step]
        states[:, step, 0] = numpy.clip(action, -2, 2)
        if step < START:
            continue
        seen = numpy.digitize(numpy.clip(lataccel[:, step - context:step], bins[0], bins[-1]), bins, right=True)
        logits = network.logits(states[:, step - context + 1:step + 1], seen)
        cdf = numpy.cumsum(softmax(logits / numpy.float32(0.8)).astype(numpy.float64), axis=-1)
        cdf /= cdf[:, -1:]
        number = numbers[:, step - context]
        token = (cdf <= number[:, None]).sum(axis=-1)
        margins[:, step - START] = numpy.abs(cdf - number[:, None]).min(axis=-1)
        now = lataccel[:, step - 1]
        lataccel[:, step] = numpy.clip(bins[token], now - 0.5, now + 0.5)
        tokens[:, step - START] = token
    off = numpy.mean((get["target"][:, START:] - lataccel[:, START:])**2, axis=1) * 100
    jerk = numpy.mean((numpy.diff(lataccel[:, START:], axis=1) / 0.1)**2, axis=1) * 100
    return tokens, margins, numpy.stack([off, jerk, off * 50 + jerk], axis=1)


def session_of(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    return onnxruntime.InferenceSession(str(model), options, ["CPUExecutionProvider"])


# --- goldens

def plant(other=False):
    """Logits around a mean of the tokens' bins and of the states, with weights that differ by position.

    `other`: 7 rows, 300 bins up to 4 m/s^2, tokens of 32 bits before the states, other names, three routes at once and
    logits of the last position alone."""
    context, count, most, routes = (7, 300, 4, 3) if other else (20, 1024, 5, "b")
    states, tokens, logits = ("history", "ids", "scores") if other else ("states", "tokens", "output")
    integer = onnx.TensorProto.INT32 if other else onnx.TensorProto.INT64
    helper, f32 = onnx.helper, onnx.TensorProto.FLOAT

    def floats(name, values):
        return onnx.numpy_helper.from_array(numpy.asarray(values, numpy.float32), name)
    past = numpy.zeros((context, context))  # [from, to]
    for to in range(context):
        weight = 0.6 ** (to - numpy.arange(to + 1))
        past[:to + 1, to] = 0.96 * weight / weight.sum()
    nodes = [helper.make_node("Cast", [tokens], ["numbers"], to=f32),
             helper.make_node("Mul", ["numbers", "width"], ["scaled"]),
             helper.make_node("Sub", ["scaled", "five"], ["values"]),
             helper.make_node("MatMul", ["values", "past"], ["before"]),
             helper.make_node("MatMul", [states, "weights"], ["pushed"]),
             helper.make_node("Unsqueeze", ["before", "last"], ["column"]),
             helper.make_node("Add", ["column", "pushed"], ["mean"]),
             helper.make_node("Sub", ["bins", "mean"], ["off"]),
             helper.make_node("Mul", ["off", "off"], ["square"]),
             helper.make_node("Mul", ["square", "sharp"], ["all" if other else logits])]
    constants = [floats("width", 2 * most / (count - 1)), floats("five", most), floats("past", past), floats("sharp", -60),
                 floats("bins", numpy.linspace(-most, most, count).reshape(1, 1, -1)), floats("weights", [[0.12], [-0.03], [0.001], [0.004]]),
                 onnx.numpy_helper.from_array(numpy.array([-1], numpy.int64), "last")]
    inputs = [helper.make_tensor_value_info(states, f32, [routes, context, 4]),
              helper.make_tensor_value_info(tokens, integer, [routes, context])]
    output = helper.make_tensor_value_info(logits, f32, [routes, context, count])
    if other:
        inputs.reverse()
        output = helper.make_tensor_value_info(logits, f32, [routes, count])
        constants.append(onnx.numpy_helper.from_array(numpy.array(context - 1, numpy.int64), "newest"))
        nodes.append(helper.make_node("Gather", ["all", "newest"], [logits], axis=1))
    graph = helper.make_graph(nodes, "plant", inputs, [output], constants)
    opset = helper.make_opsetid("", 14)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="sparkpilot")
    onnx.checker.check_model(model)
    return model


def write_goldens(options):
    folder = options.goldens
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(plant(), folder / "plant.onnx")
    onnx.save(plant(other=True), folder / "other_plant.onnx")
    cases = [("plant", folder / "plant.onnx", [("integers", k) for k in range(1, 9)]),
             ("other_plant", folder / "other_plant.onnx", [("integers", k) for k in range(1, 5)])]
    if options.model.exists():
        cases.append(("tinyphysics", options.model, [("integers", k) for k in range(11, 17)] + [("demo", 0)]))
    versions = f"NumPy {numpy.__version__}, ONNX Runtime {onnxruntime.__version__}"
    lines = [f"# bench/sim/tinyphysics_numpy.py --goldens; {versions}",
             "# network controller route number / lataccel, jerk and total cost / steps whose draw lay within 1e-5 of an"
             " edge / tokens"]
    for name, model, kinds in cases:
        network = Network(session_of(model, 1), most=4 if name == "other_plant" else 5)
        texts = [integer_route(k) if kind == "integers" else next(ASSETS.glob("*.csv")).read_text()
                 for kind, k in kinds]
        routes = [read_route(text.splitlines()) for text in texts]
        seeds = [seed_of(f"routes/{kind}_{k}.csv") for kind, k in kinds]
        for controller, gains in CONTROLLERS.items():
            tokens, margins, costs = rollout(network, routes, seeds, gains)
            for (kind, k), row, margin, cost in zip(kinds, tokens, margins, costs):
                near = numpy.flatnonzero(margin < 1e-5) + START
                lines += [f"{name} {controller} {kind} {k}", " ".join(f"{value:.17g}" for value in cost),
                          " ".join(map(str, near)), " ".join(map(str, row))]
    (folder / "goldens.txt").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goldens", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--routes", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rollout", nargs="+", metavar="MODEL FILE")
    parser.add_argument("--controller", choices=list(CONTROLLERS), default="pid")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--worlds", type=int, help="rollouts: the files over and over; each once if not given")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--end", type=int, default=END, help="the row before which rollouts end; for timing")
    parser.add_argument("--model", type=pathlib.Path, default=ASSETS / "tinyphysics.onnx")
    options = parser.parse_args()
    if options.goldens:
        write_goldens(options)
    if options.routes:
        write_routes(options.routes, options.count)
    if options.rollout:
        model, *files = options.rollout
        files = [files[i % len(files)] for i in range(options.worlds or len(files))]
        routes = [read_route(pathlib.Path(file).read_text().splitlines()) for file in files]
        network = Network(session_of(model, options.threads))
        begin, cpu = time.monotonic(), time.process_time()
        tokens, margins, costs = rollout(network, routes, [seed_of(file) for file in files],
                                         CONTROLLERS[options.controller], options.batch, options.end)
        seconds, cpu_seconds = time.monotonic() - begin, time.process_time() - cpu
        json.dump({"seconds": seconds, "cpu_seconds": cpu_seconds, "network_steps": int(tokens.size), "files": files,
                   "costs": costs.tolist(), "tokens": tokens.tolist()}, sys.stdout)


if __name__ == "__main__":
    main()
