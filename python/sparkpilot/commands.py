"""The program's commands as functions: driving routes, comparisons, training, simulation.

    import sparkpilot

    summary = sparkpilot.drive("route/", models="models", out="out/drive", threads=2)
    print(summary["frames"])

Each call starts the program (`program()` says which) with --json and returns the document that it prints, whose keys carry
their units. `sparkpilot COMMAND --help` lists a command's flags; here they are keywords:

    max_seconds=3           --max-seconds=3
    no_wide=True            --no-wide (False and None: the flag is left out)
    adapter=["a", "b:0.5"]  --adapter=a --adapter=b:0.5
    precision=["fp32", "bf16"]      --precision=fp32,bf16, as of threads, device, peer, passes and fields
    set={"kp": 1.2}         --set=kp=1.2
    from_="train.json"      --from=train.json, as Python has a word for it
"""
from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from typing import IO, Any, Callable, Iterable, List, Mapping, Optional, Union

from sparkpilot import _core
from sparkpilot._arguments import text

__all__ = ["CheckFailed", "adapter_create", "adapter_info", "adapter_merge", "bench", "build_dataset", "compare", "drive",
           "program", "run", "sim_compare", "sim_run", "train"]

_Path = Union[str, os.PathLike[str]]
_Say = Optional[Callable[[str], None]]
#: Flags that take a list with commas; all others are repeated.
_WITH_COMMAS = {"device", "fields", "passes", "peer", "precision", "threads"}
#: Commands that print a document a line.
_STREAMS = ("monitor", "route dump")
_CHECK_FAILED = 4


class CheckFailed(_core.Error):
    """A check that was asked for failed (exit code 4): a bound is exceeded, or what was compared differs.

    `result` is the command's document, as it would have been returned.
    """

    def __init__(self, text: str, result: Any) -> None:
        super().__init__(text)
        self.result = result

    def __reduce__(self) -> Any:  # as exceptions are rebuilt from their texts alone
        return type(self), (str(self), self.result)


def program() -> str:
    """The path of the program that `run` starts: the first that there is of

    1. what the environment variable SPARKPILOT_PROGRAM names,
    2. the program of the build or of the wheel that this package is a part of,
    3. `sparkpilot` in a folder of PATH that is an absolute path, if it has this package's version.

    Raises InputError if there is none.
    """
    named = os.environ.get("SPARKPILOT_PROGRAM")
    if named:
        if not _can_run(pathlib.Path(named)):
            raise _core.InputError(f"SPARKPILOT_PROGRAM: {named} is no program")
        return os.path.abspath(named)
    own = _own_program()
    return str(own) if own is not None else _program_of_path(os.environ.get("PATH", ""))


def _can_run(path: pathlib.Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@functools.lru_cache(maxsize=None)
def _own_program() -> Optional[pathlib.Path]:
    package = pathlib.Path(__file__).resolve().parent
    build = package.parent.parent
    if (build / "CMakeCache.txt").is_file() and _can_run(build / "sparkpilot"):
        return build / "sparkpilot"
    try:
        installed = importlib.metadata.distribution("sparkpilot")
    except importlib.metadata.PackageNotFoundError:
        return None
    files = [pathlib.Path(str(installed.locate_file(file))).resolve() for file in installed.files or ()]
    if package / "commands.py" not in files:  # of another sparkpilot
        return None
    return next((file for file in files if file.name == "sparkpilot" and file.parent.name == "bin" and _can_run(file)), None)


@functools.lru_cache(maxsize=None)
def _program_of_path(folders: str) -> str:
    for folder in folders.split(os.pathsep):
        found = pathlib.Path(folder, "sparkpilot")
        if found.is_absolute() and _can_run(found):
            said = subprocess.run([str(found), "--version"], capture_output=True, text=True, check=False).stdout.split()
            if _core.__version__ not in said:
                raise _core.InputError(f"{found}: expected version {_core.__version__} of the program, as the package is, "
                                       f"got {' '.join(said[:2]) or 'none'}")
            return str(found)
    raise _core.InputError("the program sparkpilot was not found: neither beside the package nor in PATH; "
                           "SPARKPILOT_PROGRAM may name it")


def _words(name: str, value: Any) -> List[str]:
    """A keyword as the program's flag."""
    name = name.rstrip("_").replace("_", "-")
    flag = f"--{name}"
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, Mapping):
        return [f"{flag}={key}={_text(each)}" for key, each in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) > 0:
        each = [_text(item) for item in value]
        return [f"{flag}={','.join(each)}"] if each and name in _WITH_COMMAS else [f"{flag}={item}" for item in each]
    return [f"{flag}={_text(value)}"]


def _text(value: Any) -> str:
    return text("argument", os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else str(value))


def run(command: str, /, *args: Union[_Path, Iterable[_Path]], say: _Say = None, json_output: bool = True,
        **flags: Any) -> Any:
    """Runs a command of the program, such as run("route info", "route/"), and returns its document.

    args: the command's arguments that are no flags; a list is several. flags: the program's, as above.
    say: is given the program's notes, a line each, as they come; None: they go to sys.stderr.
    json_output: False for a command without --json: what it prints is returned as text.

    Commands that print a document a line ("monitor", "route dump") give a list of them.
    Raises InputError, DeviceError or InternalError with the program's line by its exit code (2, 3, else), CheckFailed for
    4. Ctrl-C, or an error that `say` raises, stops the program as Ctrl-C stops it in a terminal: it finishes its files
    first, and a second Ctrl-C ends it at once. Other Python threads go on meanwhile.
    """
    words = text("command", command).split()
    if not words or words[0].startswith("-"):
        raise _core.InputError(f"command: expected a command such as 'route info', got {command!r}")
    if flags.get("help"):
        raise _core.InputError(f"sparkpilot {command} --help prints no document")
    if say is not None and not callable(say):
        raise TypeError(f"say: expected a function that takes a line, got {say!r}")
    command = " ".join(words)
    line = [program(), *words]
    for name, value in {**flags, "json": json_output}.items():
        line += _words(name, value)
    line.append("--")
    for each in args:
        if not isinstance(each, (str, bytes, os.PathLike, Iterable)):
            raise TypeError(f"sparkpilot {command}: expected paths, got {each!r}")
        line += [_text(each)] if isinstance(each, (str, bytes, os.PathLike)) else [_text(item) for item in each]
    out: List[str] = []
    notes: queue.SimpleQueue[Optional[str]] = queue.SimpleQueue()

    def read_notes(stream: IO[str]) -> None:
        for note in stream:
            notes.put(note.rstrip("\n"))
        notes.put(None)

    # A session of its own: a terminal's Ctrl-C reaches it through this process alone, and so once.
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          encoding="utf-8", errors="replace", start_new_session=True) as process:
        assert process.stdout is not None and process.stderr is not None
        readers = [threading.Thread(target=lambda stream: out.append(stream.read()), args=[process.stdout], daemon=True),
                   threading.Thread(target=read_notes, args=[process.stderr], daemon=True)]
        for reader in readers:
            reader.start()
        try:
            last = _follow(process, notes, say or (lambda note: print(note, file=sys.stderr)))
            for reader in readers:
                reader.join()
        finally:
            if process.poll() is None:  # a Ctrl-C while the one before was handled
                process.terminate()
    return _result(command, process.returncode, out[0] if out else "", last, json_output)


def _follow(process: subprocess.Popen[str], notes: queue.SimpleQueue[Optional[str]], say: Callable[[str], None]) -> str:
    """Hands on the notes until the process has ended, and returns the last one if that is its error."""
    stopped: Optional[BaseException] = None
    last: Optional[str] = None
    silent = False

    def tell(note: str) -> None:
        nonlocal silent
        if not silent:
            silent = True  # it stays so if this raises
            say(note)
            silent = False

    while True:
        try:
            while (note := _next(notes)) is not None:
                before, last = last, note
                if before is not None:
                    tell(before)
            if last is not None and (stopped or process.wait() == 0):
                before, last = last, None
                tell(before)
            process.wait()
            break
        except BaseException as error:  # Ctrl-C, or what `say` raised
            stopped = stopped or error
            process.send_signal(signal.SIGTERM)  # as Ctrl-C, which a process in the background may ignore
    if stopped is not None:
        raise stopped
    return last or ""


def _next(notes: queue.SimpleQueue[Optional[str]]) -> Optional[str]:
    while True:
        try:
            return notes.get(timeout=0.2)  # a Ctrl-C just before it begins to wait is noticed when the wait ends
        except queue.Empty:
            pass


def _result(command: str, code: int, printed: str, error: str, json_output: bool) -> Any:
    if code == 2:
        raise _core.InputError(error)
    if code == 3:
        raise _core.DeviceError(error)
    if code not in (0, _CHECK_FAILED):
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise _core.InternalError(error or f"sparkpilot {command}: ended with {ended}")
    result: Any = printed
    if json_output:
        try:
            result = [json.loads(line) for line in printed.splitlines()] if command in _STREAMS else json.loads(printed)
        except ValueError:
            raise _core.InternalError(f"sparkpilot {command}: expected a JSON document, got {printed[:80]!r}") from None
    if code == _CHECK_FAILED:
        raise CheckFailed(error or f"sparkpilot {command}: a check failed", result)
    return result


def drive(route: _Path, *, out: Optional[_Path] = None, say: _Say = None, **flags: Any) -> Any:
    """Drives a recorded route through driving models and returns the summary (docs/drive.md).

        drive("route/", models="models", out="out/drive", precision="bf16", limit=100)

    models: folder with openpilot's models; or vision and policy, or supercombo: files; or from_log=True: none.
    out: the folder of logs, videos and summary.json; resume=True goes on in it. With reference=, CheckFailed if they differ.
    """
    return run("drive", route, out=out, say=say, **flags)


def compare(*files: _Path, say: _Say = None, **flags: Any) -> Any:
    """Compares models, precisions, devices, engines or finished drives (docs/compare.md).

        compare("model.onnx", precision=["fp32", "bf16"])
        compare("old.onnx", "new.onnx", max_relative_l2=1e-3)
        compare(route="route/", models=["old", "new"], out="out/compared")
        compare("out/old", "out/new", max_plan_error=0.1)

    The first is what the others are compared with. Errors are relative or in the output's unit, times in ms; the keys say
    which. CheckFailed if a max_ bound is exceeded.
    """
    return run("compare", *files, say=say, **flags)


def bench(*files: _Path, say: _Say = None, **flags: Any) -> Any:
    """Times models on seeded random inputs (docs/bench.md).

        bench("model.onnx", threads=2, runs=100, repeats=0)

    repeats: processes that measure each model once more, 20 if not given. With baseline=, CheckFailed if it is slower.
    """
    return run("bench", *files, say=say, **flags)


def train(*, out: Optional[_Path] = None, say: _Say = None, **flags: Any) -> Any:
    """Distils a teacher into an adapter, or trains a whole model (docs/training.md).

        train(models="models", data="data", out="out/run", epochs=3)
        train(resume="out/run")

    Ctrl-C ends with a checkpoint, from which resume goes on.
    """
    return run("train", out=out, say=say, **flags)


def build_dataset(*routes: _Path, out: _Path, say: _Say = None, **flags: Any) -> Any:
    """Makes samples of recorded routes and a teacher's answers, or of synthetic roads (docs/dataset.md).

        build_dataset("route/", models="teacher", out="data")
        build_dataset(synthetic=200, models="models", no_teacher=True, out="roads")
    """
    return run("dataset build", *routes, out=out, say=say, **flags)


def adapter_create(model: _Path, out: _Path, *, say: _Say = None, **flags: Any) -> Any:
    """Writes a new adapter for a model, which changes nothing until it is trained: adapter_create("m.onnx", "a", rank=16)."""
    return run("adapter create", model, out=out, say=say, **flags)


def adapter_info(adapter: _Path, *, model: Optional[_Path] = None, say: _Say = None, **flags: Any) -> Any:
    """An adapter's layers, ranks and size in bytes. InputError if it was not made for `model`."""
    return run("adapter info", adapter, model=model, say=say, **flags)


def adapter_merge(model: _Path, *adapters: _Path, out: _Path, say: _Say = None, **flags: Any) -> Any:
    """Writes an ordinary model with adapters in its weights: adapter_merge("m.onnx", "rain:0.5", "night:0.5", out="b.onnx")."""
    return run("adapter merge", model, *adapters, out=out, say=say, **flags)


def sim_run(*, out: Optional[_Path] = None, say: _Say = None, **flags: Any) -> Any:
    """Drives simulated scenarios with an algorithm: figures by category, and the worst worlds (docs/simulation.md).

        sim_run(scenarios="curves", variants=100, set={"kp": 1.2}, out="runs/kp12")

    Keys carry their units. With check=True, CheckFailed if a world does not keep its scenario's bounds.
    """
    return run("sim run", out=out, say=say, **flags)


def sim_compare(a: _Path, b: _Path, *, say: _Say = None, **flags: Any) -> Any:
    """Whether run B drives worse than run A, world by world (docs/sim_compare.md). CheckFailed if it does."""
    return run("sim compare", a, b, say=say, **flags)
