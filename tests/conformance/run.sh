#!/usr/bin/env bash
# run.sh PROGRAM FOLDER LEAST: unpacks ONNX's cases into FOLDER, once, and runs them all. Exit code 77 (skipped) where the
# archive is not there.
set -euo pipefail
program=$1 folder=$2 least=$3
assets=${SPARKPILOT_ASSETS:-$(dirname "$0")/../../../shared/assets}
archive=$assets/onnx_backend_cases.tar.zst
if [ ! -f "$archive" ]; then
  echo "skipped: $archive is not there"
  exit 77
fi
if [ ! -f "$folder/complete" ] || [ "$archive" -nt "$folder/complete" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  tar --zstd -xf "$archive" -C "$folder"
  touch "$folder/complete"
fi
"$program" --cases "$folder" --least "$least"
