#!/usr/bin/env bash
# What `make drive` does after the build: drives a route through the models and says what came out.
#
#   make drive                                  a synthetic route of 20 s and a small model trained on such roads
#   make drive ROUTE='dongle|log' MODELS=DIR    a recorded route and openpilot's own models
#
# DATA=DIR is where routes are looked up by name; OUT=DIR (out/drive) is where the results go; ARGS=... goes to
# `sparkpilot drive` as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
program=build/sparkpilot
demo=models/demo_supercombo.onnx
route=${ROUTE:-out/route}
out=${OUT:-out/drive}

if [ -z "${ROUTE:-}" ]; then
  echo "== a synthetic route of 20 s: road and wide camera, HEVC, and the log with its truth"
  $program route synth --out "$route" --seconds 20 --seed 3 --device mici
fi

if [ -n "${MODELS:-}" ]; then model=(--models "$MODELS")
else model=(--supercombo "$demo"); fi
echo "== $route through ${model[1]}"
# shellcheck disable=SC2086  # ARGS is a list of words
$program drive "$route" "${model[@]}" --out "$out" ${DATA:+--data "$DATA"} ${ARGS:-}
echo
echo "logs that openpilot's tools read, and videos:"
ls "$out"/*/rlog.zst "$out"/*/overlay.mp4
echo "open $out/summary.html in a browser for pictures and plots"
