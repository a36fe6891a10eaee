#!/usr/bin/env bash
# Builds for 64-bit Arm on another machine and runs it under qemu: `make arm64`. The unit tests first, then
# scripts/check_arm64.py, which compares the program with this machine's.
#
# The libraries come from the distribution's arm64 packages, unpacked into build-aarch64/sysroot. apt keeps its own state
# there too, so the machine's packages and architectures stay as they are and no root is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
build=$PWD/build-aarch64
sysroot=$build/sysroot
mapfile -t libraries <scripts/arm64_libraries.txt

# Made anew where the list has changed since.
if [ "$(cat "$sysroot/complete" 2>/dev/null)" != "${libraries[*]}" ]; then
  rm -rf "$sysroot" "$build/apt"
  mkdir -p "$sysroot" "$build"/apt/{lists/partial,archives/partial}
  touch "$build/apt/status"
  apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$build/apt/lists"
    -o Dir::State::Status="$build/apt/status" -o Dir::Cache::Archives="$build/apt/archives" -o Dir::Cache::pkgcache=
    -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User= -o Debug::NoLocking=1 -o Acquire::Languages=none)
  echo "== fetching arm64 libraries into $sysroot"
  "${apt[@]}" update >/dev/null || echo "cross: some package sources have no arm64 lists" >&2
  "${apt[@]}" install -y --no-install-recommends --download-only "${libraries[@]}" >/dev/null
  for package in "$build"/apt/archives/*.deb; do
    case "$(basename "$package")" in
      # These come with the cross compiler, or are MPI's for Fortran.
      gfortran* | libgfortran* | libcoarrays* | libc6* | libc-dev* | libc-bin* | linux-libc-dev* | libstdc++* | libgcc* | gcc-* | libcrypt*) ;;
      *) dpkg-deb -x "$package" "$sysroot" ;;
    esac
  done
  # Links such as libtinfo.so -> /lib/... mean the sysroot's own.
  find "$sysroot" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do ln -sfn "$sysroot$target" "$link"; done
  rm -rf "$build/apt"
  echo "${libraries[*]}" >"$sysroot/complete"
fi

cmake --log-level=WARNING --preset aarch64 >/dev/null
cmake --build "$build" -j "$jobs"
# Left out: under qemu a program cannot start itself, a start that fails is seen by the child alone, and no time is a processor's.
left_out='^(base/ChildProcess.RefusesWhatCannotBeStarted|hw/Peak.IsPlausible|train/Trainer.SurvivesSigkillAtRandomPlaces|bench/Peers.GreetingsAreChecked)$'
# Threads that wait by turning would take the time of those that work, many times over under qemu.
OMP_WAIT_POLICY=passive ctest --test-dir "$build" -L unit -E "$left_out" -j "$jobs" --output-on-failure --timeout 3600
/usr/bin/python3 scripts/check_arm64.py --native build --arm "$build"
