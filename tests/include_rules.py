#!/usr/bin/env python3
"""Holds the sources to the include rules of docs/architecture.md.

    include_rules.py [ROOT]

Reads the block fenced as ```rules in ROOT/docs/architecture.md, then every source under src/, include/, tests/ and examples/, and
prints `file:line: what is wrong` for each violation. Exit code 0 without one, 4 with some, 2 where the rules cannot be
read. The lines of the block:

    order  base < hw < {tensor, monitor} < ...   a room may include itself and what stands before it
    tests  ops ...                               besides that, unit tests beside the code may include these rooms
    header fmt/ omp.h : base/parallel.*          who may include headers that begin so (`all`: every file under src)
    system unistd.h sys/ ...                     headers of the system that every file may include
    without ops/ !ops/cpu/ : ops/cpu ...         files that may not include these headers (but those behind a `!`),
                                                 whatever their room may
    only   "pragma omp" : base/parallel.cc       which files may hold this text

Patterns are those of the shell, from src/ or the root on; a bare room stands for its whole folder. A header in <> that
is no standard one and has no line is a violation, so a new library cannot slip in unnoticed.
"""
import fnmatch
import pathlib
import re
import shlex
import sys

SOURCES = (".h", ".cc", ".cu", ".cuh", ".inc")
C_HEADERS = {f"{name}.h" for name in "assert ctype errno fenv float inttypes limits locale math setjmp signal stdarg "
             "stddef stdint stdio stdlib string time uchar wchar".split()}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>|(\w+))')
LINKS = re.compile(r"^[ \t]*sparkpilot_room\((\w+)(?: PRECOMPILED \S+)? LINK ([^)]*)\)", re.MULTILINE)


class RulesError(Exception):
    pass


class Rules:
    def __init__(self, text):
        block = re.search(r"^```rules\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if not block:
            raise RulesError("no block fenced as ```rules")
        self.level = {}  # room -> its position in the order
        self.test_rooms = set()
        self.headers = []  # (prefixes, patterns)
        self.system = []
        self.only = []  # (text, patterns)
        self.without = []  # (prefixes, prefixes that are allowed to, patterns)
        for line in block[1].splitlines():
            words = shlex.split(line, comments=True)
            if words:
                self._take(words[0], words[1:], line)
        if not self.level:
            raise RulesError("no `order` line")

    def _take(self, kind, words, line):
        if kind == "order":
            groups = " ".join(words).split("<")
            for place, group in enumerate(groups):
                for room in group.strip(" {}").split(","):
                    room = room.strip()
                    if not re.fullmatch(r"[a-z]+", room) or room in self.level:
                        raise RulesError(f"cannot read room '{room}' in: {line}")
                    self.level[room] = place
        elif kind == "tests":
            self.test_rooms |= set(words)
        elif kind == "system":
            self.system += words
        elif kind in ("header", "without", "only"):
            if words.count(":") != 1:
                raise RulesError(f"expected `{kind} WHAT : WHERE`, got: {line}")
            colon = words.index(":")
            what, where = words[:colon], words[colon + 1:]
            if kind == "header":
                self.headers.append((tuple(what), where))
            elif kind == "without":
                self.without.append((tuple(word for word in what if word[0] != "!"),
                                     tuple(word[1:] for word in what if word[0] == "!"), where))
            else:
                self.only.append((" ".join(what), where))
        else:
            raise RulesError(f"unknown word '{kind}' in: {line}")

    def may_include_room(self, room, other, is_test):
        if other == room or (is_test and other in self.test_rooms):
            return True
        return self.level[other] < self.level[room]


def matches(path, patterns):
    """`path` is relative to src/, or to the root for what lies elsewhere."""
    return any(pattern == "all" or fnmatch.fnmatch(path, pattern) or path.startswith(pattern + "/")
               for pattern in patterns)


def is_standard(header):
    return re.fullmatch(r"[a-z_0-9]+", header) is not None or header in C_HEADERS


class Checker:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.problems = []
        page = self.root / "docs/architecture.md"
        try:
            self.rules = Rules(page.read_text())
        except OSError as error:
            raise RulesError(str(error)) from error
        except RulesError as error:
            raise RulesError(f"{page}: {error}") from error

    def run(self):
        files = [path for folder in ("src", "include", "tests", "examples") for path in sorted((self.root / folder).rglob("*"))
                 if path.suffix in SOURCES]
        if not files:
            raise RulesError(f"{self.root}: no sources")
        for path in files:
            self._file(path)
        self._links()
        return self.problems

    def _say(self, path, line, text):
        self.problems.append(f"{path.relative_to(self.root)}:{line}: {text}")

    def _file(self, path):
        parts = path.relative_to(self.root).parts
        place = "/".join(parts[1:] if parts[0] == "src" else parts)
        room = parts[1] if parts[0] == "src" and len(parts) > 2 else None
        if parts[0] == "src" and room not in self.rules.level:
            self._say(path, 1, f"the room '{room}' has no place in the order of docs/architecture.md")
            return
        is_test = parts[0] == "tests" or path.stem.endswith(("_test", "_fuzz"))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for text, where in self.rules.only:
                if text in line and not matches(place, where):
                    self._say(path, number, f"\"{text}\" belongs to {' '.join(where)}")
            found = INCLUDE.match(line)
            if not found:
                continue
            quoted, angled, macro = found.groups()
            header = quoted or angled or ""
            for prefixes, but, where in self.rules.without:
                if header.startswith(prefixes) and not header.startswith(but) and matches(place, where):
                    self._say(path, number, f"{header} may not be included here")
            if quoted:
                if self._is_foreign(quoted):
                    self._foreign(path, number, parts[0], place, quoted)
                else:
                    self._own(path, number, parts[0], room, is_test, quoted)
            elif angled:
                self._foreign(path, number, parts[0], place, angled)
            elif not (parts[0] == "src" and macro.startswith("HWY_")):
                self._say(path, number, f"include of a macro: {macro}")

    def _is_foreign(self, header):
        """Highway's headers are written in quotes by custom; the room onnx and the library of that name share a prefix."""
        return (any(header.startswith(prefixes) for prefixes, _ in self.rules.headers)
                and header.split("/")[0] not in self.rules.level)

    def _own(self, path, line, top, room, is_test, header):
        if header.startswith("/") or ".." in pathlib.PurePosixPath(header).parts:
            self._say(path, line, f"\"{header}\" is not written from the root of the sources")
            return
        if header.startswith("sparkpilot/"):
            if not (self.root / "include" / header).is_file():
                self._say(path, line, f"\"{header}\" does not exist")
            return
        if top in ("include", "examples"):
            what = "a public header" if top == "include" else "an example"
            self._say(path, line, f"{what} includes \"{header}\", which users do not have")
            return
        if top == "tests" and (self.root / "tests" / header).is_file():
            return
        if not (self.root / "src" / header).is_file():
            self._say(path, line, f"\"{header}\" does not exist")
            return
        other = header.split("/")[0]
        if other not in self.rules.level:
            self._say(path, line, f"\"{header}\" is in no room")
        elif room and not self.rules.may_include_room(room, other, is_test):
            self._say(path, line, f"{room} may not include {other}")

    def _foreign(self, path, line, top, place, header):
        if is_standard(header):
            return
        if top == "include":
            self._say(path, line, f"a public header includes <{header}>")
            return
        for prefixes, where in self.rules.headers:
            if header.startswith(prefixes):
                if not matches(place, where):
                    self._say(path, line, f"<{header}> belongs to {' '.join(where)}")
                return
        if not header.startswith(tuple(self.rules.system)):
            self._say(path, line, f"no rule for <{header}> in docs/architecture.md")

    def _links(self):
        """The CMake targets obey the same order."""
        lists = self.root / "CMakeLists.txt"
        if not lists.is_file():
            return
        text = lists.read_text()
        for found in LINKS.finditer(text):
            room, line = found[1], text[:found.start()].count("\n") + 1
            for other in found[2].split():
                if room not in self.rules.level:
                    self._say(lists, line, f"the target '{room}' is no room of docs/architecture.md")
                    break
                if other in self.rules.level and not self.rules.may_include_room(room, other, False):
                    self._say(lists, line, f"{room} may not link {other}")


def main(arguments):
    root = arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent
    try:
        problems = Checker(root).run()
    except RulesError as error:
        print(f"include_rules: {error}", file=sys.stderr)
        return 2
    for problem in problems:
        print(problem)
    return 4 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
