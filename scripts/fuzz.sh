#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET...]: builds the fuzz targets (clang, address and undefined-behaviour sanitizers) and runs
# each for that long, one after the other. The corpus stays in build-fuzz/corpus; a crasher is kept in
# build-fuzz/crashes and named. Exit code 4 where there was one.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(import_fuzz run_fuzz pickle_fuzz npy_fuzz safetensors_fuzz dataset_fuzz reader_fuzz timeline_fuzz doctor_fuzz monitor_fuzz
  elf_fuzz fatbin_fuzz adapter_fuzz results_fuzz scenario_file_fuzz challenge_route_fuzz car_file_fuzz car_signals_fuzz
  tune_fuzz config_file_fuzz)

cmake --log-level=WARNING --preset fuzz >/dev/null
cmake --build build-fuzz --target make_seeds "${targets[@]}"
cases=build-fuzz/cases
archive=${SPARKPILOT_ASSETS:-../shared/assets}/onnx_backend_cases.tar.zst
if [ -f "$archive" ] && [ ! -d "$cases" ]; then
  mkdir -p "$cases"
  tar --zstd -xf "$archive" -C "$cases"
fi
if [ -d "$cases" ]; then build-fuzz/make_seeds build-fuzz/seeds "$cases"; else build-fuzz/make_seeds build-fuzz/seeds; fi

failed=0
for target in "${targets[@]}"; do
  mkdir -p "build-fuzz/corpus/$target" build-fuzz/crashes
  echo "== $target, $seconds seconds"
  "build-fuzz/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 \
    -artifact_prefix="build-fuzz/crashes/$target-" "build-fuzz/corpus/$target" "build-fuzz/seeds/$target" \
    >"build-fuzz/$target.log" 2>&1 || { failed=1; echo "$target: FAILED"; grep -E "ERROR|SUMMARY|Test unit" "build-fuzz/$target.log" || true; }
  grep -E "number_of_executed_units|peak_rss_mb" "build-fuzz/$target.log" || true
done
[ "$failed" = 0 ] || exit 4
