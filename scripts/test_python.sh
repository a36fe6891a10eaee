#!/usr/bin/env bash
# The Python package's tests (tests/python) with what Python's package index has today in place of the distribution's packages:
# NumPy 2, PyTorch, Gymnasium, Stable-Baselines3, pycapnp, SPDX's tools and a fresh environment for the wheel. `make test-python`
# builds first.
#
#   scripts/test_python.sh [NAME...]        by default all: tests/python/NAME_test.py
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/make_peers.sh onnxruntime learning formats
python=$PWD/.venv/bin/python
for module in build/python/sparkpilot/_core.*.so; do
  "$python" -c 'import sys, sysconfig; sys.exit(not sys.argv[1].endswith("_core" + sysconfig.get_config_var("EXT_SUFFIX")))' "$module" || {
    echo "test_python: $module is for another Python than .venv's ($("$python" --version)); remove .venv and have that one as python3" >&2
    exit 2
  }
done
if [ $# -eq 0 ]; then
  echo "== the environment by ctypes, and algorithms in NumPy"
  "$python" tests/sim_env_gym_test.py build/libsparkpilot_sim.so
  SPARKPILOT_TEST_PYTHON=$python build/e2e_test --gtest_brief=1 \
    --gtest_filter='SimAlgorithm.*NumPy*:SimAlgorithm.AnOutput*:SimTinyPhysicsScript.OneController*'
  echo "== the list of what a package is made of, by SPDX's tools"
  "$python" tests/sbom_test.py
fi
[ $# -gt 0 ] || set -- $(cd tests/python && printf '%s\n' *_test.py | sed 's/_test\.py$//')
failed=0
for name in "$@"; do
  echo "== $name"
  # 77 means skipped, which nothing here may be.
  PYTHONPATH=$PWD/build/python SPARKPILOT_BUILD=$PWD/build "$python" "tests/python/${name}_test.py" || {
    failed=4
    echo "test_python: $name: FAILED" >&2
  }
done
exit $failed
