#!/usr/bin/env python3
"""Adds up JUnit files that ctest wrote and prints `N passed, N failed, N skipped`.

Before that line it names what failed, with the beginning of what it said: the end of a log shows why it is red.
Exit code 1 when a test failed, when a file is missing, or when no test ran at all.
"""
import re
import sys
import xml.etree.ElementTree as xml


MOST_TOLD = 10
LINES_EACH = 12
WIDTH = 400


def failure(case):
    """The name of a failed test and what it said, from its first failed check on; otherwise its last lines."""
    said = (case.findtext("system-out") or "").splitlines()
    first = next((k for k, line in enumerate(said) if re.search(r": Failure$|^(Assertion|\w*Error)\b", line)), None)
    told = said[-LINES_EACH:] if first is None else said[first : first + LINES_EACH]
    why = next((each.get("message") for each in case if each.tag in ("failure", "skipped")), "")
    head = f"failed: {case.get('name')} ({why or case.get('status')})"
    return "\n".join([head, *(f"  {line[:WIDTH]}" for line in told)])


def count(path):
    """(passed, failed, skipped) of one file. What neither passed nor asked to be skipped has failed."""
    passed = skipped = 0
    failed = []
    for case in xml.parse(path).getroot().iter("testcase"):
        skip = case.find("skipped")  # also there when the program was not found, which is no reason to pass over it
        if case.get("status") == "run":
            passed += 1
        elif case.get("status") == "disabled" or (skip is not None and skip.get("message", "").startswith("SKIP_")):
            skipped += 1
        else:
            failed.append(failure(case))
    return passed, failed, skipped


def main(paths):
    totals = [0, [], 0]
    readable = True
    for path in paths:
        try:
            totals = [a + b for a, b in zip(totals, count(path))]
        except (OSError, xml.ParseError) as error:
            print(f"count_tests: {path}: {error}", file=sys.stderr)
            readable = False
    passed, failed, skipped = totals
    print(*failed[:MOST_TOLD], sep="\n", end="\n" if failed else "")
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    return 0 if readable and not failed and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
