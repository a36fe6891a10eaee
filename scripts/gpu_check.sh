#!/usr/bin/env bash
# Settles on a machine with an NVIDIA GPU what the emulator cannot show (docs/cuda.md, "Check and measure a GPU"): runs gpu_check, from the
# package that this lies in or, in the source tree, from build/.
#
#   ./gpu_check.sh [--out DIR] [--parts LIST] [--minutes N] [--models DIR] [--soak] ...      --help lists everything
#
# It needs no network and installs nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$here/gpu_check
[ -x "$program" ] || program=$here/../build/gpu_check
if [ ! -x "$program" ]; then
  echo "gpu_check.sh: there is no $program: unpack the package whole, or run make gpu-check" >&2
  exit 2
fi
commit=$(cat "$here/commit" 2>/dev/null || git -C "$here" rev-parse HEAD 2>/dev/null || echo unknown)
# GNU's OpenMP threads spin less long between runs, as sparkpilot sets it for itself.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-4000}
if [ "${1:-}" = table ]; then exec "$program" "$@"; fi
exec "$program" --commit "$commit" "$@"
