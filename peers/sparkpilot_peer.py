"""What the adapters in this folder share: the protocol of docs/peers.md, and arrays in files.

An adapter is a class with the methods below, and calls serve(Class):

    engine                      text with the engine's name and version; __init__ raises Refused where it cannot be used
    load(request)               returns {"device": text, "precision": text, "threads": number or None}
    set_inputs(arrays)          arrays by input name
    run(count)                  returns the milliseconds of each run
    outputs()                   arrays by name, of the last run
"""
import importlib.metadata
import json
import os
import re
import sys

import numpy

PROTOCOL = 1


class Refused(Exception):
    """A request that this adapter cannot fulfil, with the reason for the user."""


def version_of(package, at_least):
    """The version of an installed package; refuses where it is missing or older than `at_least`, such as "1.5"."""
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise Refused(f"{package} is not installed for {sys.executable}; {package} {at_least} or newer is expected"
                      ) from None
    if numbers_of(found) < numbers_of(at_least):
        raise Refused(f"{package} {at_least} or newer expected, found {found}")
    return found


def numbers_of(version):
    """"1.30.0rc1" as (1, 30, 0)."""
    return tuple(int(number) for number in re.match(r"\d*(?:\.\d+)*", version)[0].split(".") if number)


def precision_of(request):
    """What an engine computes in that follows the file's types: "model" instead of "fp32" where it has 16-bit floats."""
    try:
        import onnx
    except ImportError:
        return request["precision"]
    graph = onnx.load(request["model"], load_external_data=False).graph
    half = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    types = [tensor.data_type for tensor in graph.initializer]
    types += [value.type.tensor_type.elem_type for value in graph.input]
    return "model" if request["precision"] == "fp32" and any(one in half for one in types) else request["precision"]


def reason_of(error):
    """One line of an exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def serve(make_adapter):
    """Answers requests from stdin until it ends or asks to quit."""
    # What libraries print on stdout goes to stderr; answers go where stdout went.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        adapter = make_adapter()
    except Refused as refusal:
        return say({"error": str(refusal)})
    say({"protocol": PROTOCOL, "engine": adapter.engine})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "quit":
            return None
        try:
            say(answer_to(adapter, request))
        except Refused as refusal:
            say({"error": str(refusal)})
        except Exception as error:  # whatever a library raises is the user's to read, and ends nothing
            say({"error": reason_of(error)})
    return None


def answer_to(adapter, request):
    what = request["do"]
    if what == "load":
        return adapter.load(request)
    if what == "inputs":
        adapter.set_inputs({name: numpy.load(file, allow_pickle=False) for name, file in request["files"].items()})
        return {}
    if what == "run":
        return {"ms": adapter.run(request["count"])}
    if what == "outputs":
        files = []
        for i, (name, array) in enumerate(adapter.outputs().items()):
            files.append({"name": name, "file": f"out_{i}.npy"})
            numpy.save(files[-1]["file"], numpy.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
        return {"outputs": files}
    raise Refused(f"the request {what!r} is not known")
