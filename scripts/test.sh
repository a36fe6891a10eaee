#!/usr/bin/env bash
# Runs the tests of build/, then the sanitizer build of the rooms that read foreign bytes, and closes with one line:
# `N passed, N failed, N skipped`. `make test` builds first and then calls this.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

# The rooms whose code meets bytes that others made: files, machines, tensors, graphs, ONNX, route logs and video,
# libraries, adapters, data sets and checkpoints; and the gradients, which adapters bring in.
readers=(base hw tensor monitor ir onnx grad adapters route train stack)

failed=0
run_ctest() { # folder, what to run
  ctest --test-dir "$1" "${@:2}" -j 2 --output-on-failure --no-tests=error --output-junit "$PWD/$1/results.xml" || failed=1
}

# What the tests of a suite read is made once (tests/shared_folder.h).
SPARKPILOT_TEST_FOLDER=$(mktemp -d)
chmod 755 "$SPARKPILOT_TEST_FOLDER"  # some tests read it as another user
export SPARKPILOT_TEST_FOLDER
trap 'rm -rf "$SPARKPILOT_TEST_FOLDER"' EXIT

rm -f build/results.xml build-readers/results.xml
echo "== tests"
# All but two labels, so that a test whose program was not built (it has no label) fails instead of being left out.
run_ctest build -LE '^(peers|gpu)$'

# Ops, passes, sessions and drives are taken as they are; `make sanitize` instruments them too.
echo "== tests under the address and undefined-behaviour sanitizers: ${readers[*]}"
cmake --log-level=WARNING --preset readers >/dev/null
cmake --build build-readers -j "$jobs" --target "${readers[@]/%/_test}"
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/tests/leaks.txt:print_suppressions=0
# Left out: data sets are built by the whole drive, for minutes here, and what reads them has tests of its own; the longest trainings
# read nothing that shorter ones do not read.
run_ctest build-readers -R "^($(IFS='|'; echo "${readers[*]}"))/" \
  -E '^train/(Build[.]|Tiny/Bf16[.]|StudentTest[.](LayersAreComparedWithATeachers|ABaseOfFewerBitsIsTheRoundedModel)$)'

python3 scripts/count_tests.py build/results.xml build-readers/results.xml || failed=1
exit $failed
