#!/usr/bin/env bash
# What `make drive` does after the build: makes the stand-in models, runs vision and policy on synthetic frames, and
# measures a real network where ../shared/assets has one.
set -euo pipefail
cd "$(dirname "$0")/.."
assets=${SPARKPILOT_ASSETS:-../shared/assets}
models=out/models

echo "== stand-in models (random weights: for speed and plumbing only)"
build/sparkpilot zoo build --all --out "$models" --quiet

echo "== 300 synthetic frames through driving_vision and driving_policy"
build/synthetic_drive "$models/driving_vision.onnx" "$models/driving_policy.onnx" 300

network=$assets/openpilot_dm/dmonitoring_model_v0.8.9_2021-08.onnx
if [ -f "$network" ]; then
  echo "== openpilot's driver monitoring network of 2021"
  build/sparkpilot model info "$network"
  build/sparkpilot bench "$network" --runs 300 --profile --top 10
else
  echo "== no real network: $network is not there"
fi
