#!/usr/bin/env bash
# Installs what sparkpilot needs from the distribution's packages. Quick and without network when all of it is there.
#
#   scripts/install_deps.sh [--check] [GROUP...]
#
# Groups: build (the default: build and test), lint, fuzz, cross (aarch64), peers (other engines), package (.deb files).
# Runs as root or through sudo; where neither works it prints the command to run.
# Exit codes: 0 everything is there, 2 it is not and cannot be installed, 4 --check found something missing.
#
# Made for Debian 12 (amd64), and run on Debian 13 and Ubuntu 24.04. DGX OS 7 has Ubuntu's packages; it has not been run there yet.
set -euo pipefail

packages_of() {
  case "$1" in
    build)
      echo g++ make cmake ninja-build ccache python3 python3-numpy python3-dev pybind11-dev zstd \
        libonnx-dev libprotobuf-dev protobuf-compiler libdnnl-dev libhwy-dev \
        libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libgtest-dev libbenchmark-dev \
        capnproto libcapnp-dev libzstd-dev libbz2-dev libzip-dev libcairo2-dev \
        libncurses-dev pkg-config tmux libavcodec-dev libavformat-dev libavutil-dev libopenmpi-dev openmpi-bin
      ;;
    lint) echo clang clang-format clang-tidy python3 ;;
    fuzz) echo clang libclang-rt-dev ;;
    cross) echo g++-aarch64-linux-gnu qemu-user ;;
    peers) echo python3 python3-venv clang ;; # tinygrad compiles its kernels
    package) echo dpkg-dev debootstrap lintian iproute2 ;;
    *)
      echo "install_deps: no group named '$1' (build, lint, fuzz, cross, peers, package)" >&2
      return 2
      ;;
  esac
}

check_only=false
groups=()
for argument in "$@"; do
  case "$argument" in
    --check) check_only=true ;;
    -h | --help)
      sed -n '2,10s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*)
      echo "install_deps: unknown option $argument (see --help)" >&2
      exit 2
      ;;
    *) groups+=("$argument") ;;
  esac
done
[ ${#groups[@]} -gt 0 ] || groups=(build)

wanted=()
for group in "${groups[@]}"; do
  list=$(packages_of "$group")
  read -ra list <<<"$list"
  wanted+=("${list[@]}")
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install_deps: this system has no apt; install what these Debian packages hold, then run cmake yourself:" >&2
  echo "  ${wanted[*]}" >&2
  exit 2
fi

missing=()
installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package} ' "${wanted[@]}" 2>/dev/null || true)"
for package in "${wanted[@]}"; do
  [[ "$installed" == *" installed:$package "* ]] || missing+=("$package")
done

if [ ${#missing[@]} -eq 0 ]; then
  $check_only && echo "install_deps: everything is there (${groups[*]})"
  exit 0
fi
if $check_only; then
  echo "install_deps: missing: ${missing[*]}"
  exit 4
fi

install=(apt-get install -y --no-install-recommends "${missing[@]}")
if [ "$(id -u)" -eq 0 ]; then
  as_root=(env DEBIAN_FRONTEND=noninteractive)
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
else
  echo "install_deps: ${#missing[@]} packages are missing and this is not root. Run:" >&2
  echo "  sudo apt-get update && sudo ${install[*]}" >&2
  exit 2
fi

echo "install_deps: installing ${missing[*]}"
# One unreachable source among several is no reason to stop; the installation itself is.
"${as_root[@]}" apt-get update || echo "install_deps: apt-get update failed; trying with the lists that are there" >&2
if ! "${as_root[@]}" "${install[@]}" -o DPkg::Lock::Timeout=300; then
  echo "install_deps: apt-get could not install: ${missing[*]}" >&2
  exit 2
fi
