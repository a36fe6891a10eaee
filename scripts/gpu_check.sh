#!/usr/bin/env bash
# Settles on a machine with an NVIDIA GPU what the emulator cannot show (docs/cuda.md, "On a GPU").
#
#   ./gpu_check.sh [--out DIR] [--parts LIST] [--minutes N] [--models DIR] [--soak] [--again] [--filter TEXT] [--tiny]
#                  [--engines LIST] [--python FILE]
#
# It needs no network and installs nothing. Parts, in this order: words, ops, networks, faults, sanitizer (NVIDIA's
# compute-sanitizer where it is found), limits, bench, peers (engines that are there), and with --soak a load of 30
# minutes. Each ends within nine minutes, prints a line, and is kept in DIR/gpu_check.json; a second call goes on where
# the first one ended, and --again repeats parts that are done. --minutes N: of bench and peers, 8 at most.
#
# Exit codes: 0 all passed, 1 a part failed, 2 wrong usage, 3 no GPU or driver, 4 a part
# is unfinished and the next call goes on with it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=${GPU_CHECK:-$here/gpu_check}
[ -x "$program" ] || program=$here/../build/gpu_check
commit=$(cat "$here/commit" 2>/dev/null || git -C "$here" rev-parse HEAD 2>/dev/null || echo unknown)

out=gpu_check_results
parts=words,ops,networks,faults,sanitizer,limits,bench,peers
minutes=8
soak=false
common=()
while [ $# -gt 0 ]; do
  case "$1" in
    --out | --parts | --minutes | --models | --filter | --engines | --python | --rounds)
      if [ $# -lt 2 ]; then
        echo "gpu_check: $1 needs a value" >&2
        exit 2
      fi
      case "$1" in
        --out) out=$2 ;;
        --parts) parts=$2 ;;
        --minutes) minutes=$2 ;;
        *) common+=("$1" "$2") ;;
      esac
      shift 2
      ;;
    --soak) soak=true && shift ;;
    --again | --tiny) common+=("$1") && shift ;;
    --help | -h)
      sed -n '2,14s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "gpu_check: expected what --help lists, got $1" >&2
      exit 2
      ;;
  esac
done
if ! [[ $minutes =~ ^[1-8]$ ]]; then
  echo "gpu_check: --minutes: expected 1 to 8, got $minutes" >&2
  exit 2
fi
for part in ${parts//,/ }; do
  case "$part" in
    words | ops | networks | faults | sanitizer | limits | bench | peers | soak) ;;
    *)
      echo "gpu_check: --parts: no part is named $part" >&2
      exit 2
      ;;
  esac
done
case ",$parts," in *,soak,*) soak=false ;; esac
if $soak; then parts=$parts,soak; fi

# GNU's OpenMP threads spin less long between runs, as sparkpilot sets it for itself.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-4000}
failed=0
unfinished=0

# check PART SECONDS [FLAG...]: a part of the program. After one that fails, that ends the program or that has to be ended,
# the next one is begun.
check() {
  local part=$1 seconds=$2 code=0
  shift 2
  timeout -k 20 "$seconds" "$program" "$part" --out "$out" --commit "$commit" ${common[@]+"${common[@]}"} "$@" || code=$?
  case "$code" in
    0) ;;
    1) failed=1 ;;
    4) unfinished=4 ;;
    2 | 3) exit "$code" ;;
    *)
      failed=1
      printf '%-9s FAILED: the program ended with exit code %s; call this again to go on behind it\n' "$part" "$code"
      ;;
  esac
}

# NVIDIA's checker over the words and the kernels that the networks spend their time in.
sanitizer() {
  local tool code checker found seconds=170
  checker=$(command -v compute-sanitizer || true)
  for found in /usr/local/cuda*/bin/compute-sanitizer; do
    if [ -z "$checker" ] && [ -x "$found" ]; then checker=$found; fi
  done
  if [ -z "$checker" ]; then
    echo "sanitizer not run: compute-sanitizer is not on this machine"
    return
  fi
  for tool in memcheck racecheck synccheck; do
    local scratch
    scratch=$(mktemp -d)
    code=0
    timeout -k 10 "$seconds" "$checker" --tool "$tool" --error-exitcode 9 --launch-timeout 60 "$program" words ops \
      --out "$scratch" --minutes 2 --filter \
      sparkpilot::Conv,sparkpilot::Gemm,MatMul,Attention,Softmax,LayerNormalization,ReduceMean,MaxPool,Gather,Concat,Resize,Add \
      >"$scratch/log" 2>&1 || code=$?
    if [ "$code" -eq 4 ]; then code=0; fi # what was reached in the time
    "$program" record "$tool" --exit "$code" --log "$scratch/log" --out "$out" --commit "$commit"
    rm -rf "$scratch"
    case "$code" in
      0) printf '%-9s passed\n' "$tool" ;;
      9) printf '%-9s FAILED: the log is in the results\n' "$tool" ;;
      *) printf '%-9s FAILED: it ended with exit code %s, which is none of its findings\n' "$tool" "$code" ;;
    esac
    if [ "$code" -ne 0 ]; then failed=1; fi
  done
}

for part in ${parts//,/ }; do
  case "$part" in
    sanitizer) sanitizer ;;
    bench | peers) check "$part" 535 --minutes "$minutes" ;;
    soak) check soak 2400 ;;
    *) check "$part" 535 --minutes 8 ;;
  esac
done
echo "results: $out/gpu_check.json ($("$program" --version))"
if [ "$failed" -ne 0 ]; then exit "$failed"; fi
exit "$unfinished"
