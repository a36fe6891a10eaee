#!/usr/bin/env python3
"""Adds up JUnit files that ctest wrote and prints `N passed, N failed, N skipped`.

Exit code 1 when a test failed, when a file is missing, or when no test ran at all.
"""
import sys
import xml.etree.ElementTree as xml


def count(path):
    """(passed, failed, skipped) of one file. What neither passed nor asked to be skipped has failed."""
    passed = failed = skipped = 0
    for case in xml.parse(path).getroot().iter("testcase"):
        skip = case.find("skipped")  # also there when the program was not found, which is no reason to pass over it
        if case.get("status") == "run":
            passed += 1
        elif case.get("status") == "disabled" or (skip is not None and skip.get("message", "").startswith("SKIP_")):
            skipped += 1
        else:
            failed += 1
    return passed, failed, skipped


def main(paths):
    totals = [0, 0, 0]
    readable = True
    for path in paths:
        try:
            totals = [a + b for a, b in zip(totals, count(path))]
        except (OSError, xml.ParseError) as error:
            print(f"count_tests: {path}: {error}", file=sys.stderr)
            readable = False
    passed, failed, skipped = totals
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if readable and failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
