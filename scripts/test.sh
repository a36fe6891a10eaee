#!/usr/bin/env bash
# Runs the tests of build/, then the sanitizer build of the rooms that read foreign bytes, and closes with one line:
# `N passed, N failed, N skipped`. `make test` builds first and then calls this.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

# The rooms whose code meets bytes that others made: files, machines, tensors, graphs, ONNX, route logs and video,
# libraries, adapters, data sets and checkpoints; and the gradients, which adapters bring in.
readers=(base hw tensor monitor ir onnx grad adapters route train stack)

left_out=(
  'train/Build[.]' 'train/Tiny/Bf16[.]' 'train/BuildSynthetic[.]ATeacherMayAnswerBesides'
  'train/StudentTest[.](LayersAreComparedWithATeachers|ABaseOfFewerBitsIsTheRoundedModel|AllWeightsAreTrainedAndWrittenIntoTheModel)'
  'onnx/Zoo[.](OutputsAreSane|OldSupercomboListensToEveryInput)'
  'base/Paired[.]BootstrapHoldsTheMeanAsOftenAsItSays' 'base/RatioInterval[.]HoldsTheTrueRatio'
)

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
# Left out: what spends its time in rooms that are not instrumented here (whole drives, long trainings, networks of the zoo), and
# statistics of many draws. Shorter tests read the same bytes.
run_ctest build-readers -R "^($(IFS='|'; echo "${readers[*]}"))/" -E "^($(IFS='|'; echo "${left_out[*]}"))"

python3 scripts/count_tests.py build/results.xml build-readers/results.xml || failed=1
exit $failed
