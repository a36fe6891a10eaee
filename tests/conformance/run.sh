#!/usr/bin/env bash
# run.sh FOLDER PROGRAM ARGUMENT...: unpacks ONNX's cases into FOLDER, once, and runs the program on them. Exit code 77
# (skipped) where the archive is not there.
set -euo pipefail
folder=$1
shift
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
"$@" --cases "$folder"
