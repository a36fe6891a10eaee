#!/usr/bin/env bash
# Makes .venv with the engines that bench/ and `--peer` compare with, from Python's package index. Does nothing for those
# that are there.
#
#   scripts/make_peers.sh [onnxruntime|pytorch|tinygrad|learning|training|formats]...        without names: the first three
#
# `learning` is Gymnasium, Stable-Baselines3 and mypy, with PyTorch, for the tests of the Python package; `training` is PEFT, with
# PyTorch, for bench/peers/check_peft.py, compare_training.py, compare_gradients.py and make_peft_goldens.py; `formats` is pycapnp and
# SPDX's tools, which tests hold route logs and the list of what a package is made of against.
#
# .venv then takes 0.3 GB for ONNX Runtime with what bench/ needs, 40 MB for tinygrad, and 4.1 GB for PyTorch: its package
# for x86-64 does not start without CUDA's libraries, even on a machine without a GPU. What it needs only to compile
# kernels (Triton) and for solvers on a GPU is left out; `pip install torch` in .venv adds it. On aarch64 this has not been
# tried.
set -euo pipefail
cd "$(dirname "$0")/.."

there() { # package==version...
  .venv/bin/python - "$@" 2>/dev/null <<'PYTHON'
import importlib.metadata
import sys

for package, _, version in (text.partition("==") for text in sys.argv[1:]):
    found = importlib.metadata.version(package)
    if version and found.split("+")[0] != version:
        sys.exit(1)
PYTHON
}

install() {
  echo "make_peers: installing $* into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
}

onnxruntime() {
  local wanted=(onnxruntime==1.30.0 numpy onnx av)
  there "${wanted[@]}" || install "${wanted[@]}"
}

tinygrad() {
  there tinygrad==0.14.0 numpy || install tinygrad==0.14.0 numpy
}

pytorch() {
  local torch=(torch==2.15.0 torchvision==0.29.2 onnx2torch==1.5.15) # onnx2torch imports torchvision
  there "${torch[@]}" pillow onnx && return
  install numpy onnx pillow filelock fsspec jinja2 networkx sympy typing_extensions \
    'cuda-toolkit[cublas,cudart,cufft,cufile,cupti,cusparse,nvjitlink,nvrtc]==13.2.2' \
    nvidia-cudnn-cu13==9.26.0.51 nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.30.7 nvidia-nvshmem-cu13==3.7.2
  install --no-deps "${torch[@]}"
}

learning() {
  pytorch
  there gymnasium==1.4.0 stable-baselines3==2.9.2 mypy && return
  install gymnasium==1.4.0 mypy
  install --no-deps stable-baselines3==2.9.2 # of what it needs, the rest is there
}

training() {
  pytorch
  there peft==0.21.2 safetensors==0.8.0 transformers==5.24.0 accelerate==1.15.0 && return
  install safetensors==0.8.0 'huggingface_hub>=1.31,<3' 'tokenizers>=0.23.1,<0.24' 'regex>=2025.10.22' typer psutil pyyaml tqdm packaging
  install --no-deps peft==0.21.2 transformers==5.24.0 accelerate==1.15.0
}

formats() {
  local wanted=(pycapnp==2.2.4 zstandard==0.25.0 numpy spdx-tools==0.8.5 packageurl-python==0.17.6)
  there "${wanted[@]}" || install "${wanted[@]}"
}

[ -x .venv/bin/python ] || python3 -m venv .venv
[ $# -gt 0 ] || set -- onnxruntime tinygrad pytorch
for peer in "$@"; do
  case "$peer" in
    onnxruntime | tinygrad | pytorch | learning | training | formats) "$peer" ;;
    *)
      echo "make_peers: no peer named '$peer' (onnxruntime, pytorch, tinygrad, learning, training, formats)" >&2
      exit 2
      ;;
  esac
done
