#!/usr/bin/env bash
# Makes .venv with the peers that bench/ compares with, from Python's package index. Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=(onnxruntime==1.30.0 numpy onnx av)

if .venv/bin/python -c 'import av, numpy, onnx, onnxruntime, sys; sys.exit(onnxruntime.__version__ != "1.30.0")' 2>/dev/null; then
  exit 0
fi
echo "make_peers: installing ${wanted[*]} into .venv"
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check "${wanted[@]}"
