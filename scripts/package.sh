#!/usr/bin/env bash
# Packs what is built into a Debian package: out/sparkpilot_VERSION_ARCHITECTURE.deb. `make package` builds first.
#
#   scripts/package.sh [BUILD [OUT]]        from build into out
#
# The same build gives the same bytes: times in the package are SOURCE_DATE_EPOCH, by default those of the last commit.
# MAINTAINER="NAME <ADDRESS>" is who the package names.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
out=${2:-out}
maintainer=${MAINTAINER:-sparkpilot authors <sparkpilot@localhost.localdomain>}
version=$(sed -n 's/^project(sparkpilot VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)-1
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then SOURCE_DATE_EPOCH=$(git log -1 --format=%ct); fi
export SOURCE_DATE_EPOCH LC_ALL=C
umask 022

case "$(readelf -h "$build/sparkpilot" | sed -n 's/.*Machine: *//p')" in
  *X86-64*) architecture=amd64 triplet=x86_64-linux-gnu ;;
  AArch64) architecture=arm64 triplet=aarch64-linux-gnu ;;
  *)
    echo "package: $build/sparkpilot is neither for x86-64 nor for 64-bit Arm" >&2
    exit 2
    ;;
esac
tool=$triplet-
command -v "${tool}strip" >/dev/null || tool=

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
DESTDIR=$root cmake --install "$build" --prefix /usr >/dev/null
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions" # where Debian's zsh looks
gzip -9n "$root"/usr/share/man/man1/*.1
sed -i '1s|^#!/usr/bin/env python3|#!/usr/bin/python3|' "$root"/usr/share/sparkpilot/peers/*.py

# The Python package, for the distribution's Python; the library of worlds is the system's.
modules=("$build"/python/sparkpilot/_core.*.so)
module=${modules[0]}
python=
if [ -f "$module" ]; then
  [ ${#modules[@]} -eq 1 ] || { echo "package: modules for several Pythons: ${modules[*]}" >&2; exit 2; }
  python=$root/usr/lib/python3/dist-packages/sparkpilot
  mkdir -p "$python"
  cp python/sparkpilot/{*.py,*.pyi,py.typed} "$build"/python/sparkpilot/_{core,route}.*.so "$python/"
  chmod 644 "$python"/*
  # It compiles its files where they lie; dpkg does not know what came of that.
  mkdir -p "$root/DEBIAN"
  printf '#!/bin/sh\nset -e\nrm -rf /usr/lib/python3/dist-packages/sparkpilot/__pycache__\n' >"$root/DEBIAN/prerm"
  chmod 755 "$root/DEBIAN/prerm"
fi

# Symbols that only a debugger wants.
mapfile -t programs < <(find "$root/usr/bin" "$root/usr/lib" -type f \( -name '*.so*' -o -perm /111 \))
"${tool}strip" --strip-unneeded --remove-section=.comment --remove-section=.note "${programs[@]}"
"${tool}strip" --strip-debug --enable-deterministic-archives "$root"/usr/lib/*.a
chmod 644 "$root"/usr/lib/*.so.* "$root"/usr/lib/sparkpilot/*.so 2>/dev/null || true

doc=$root/usr/share/doc/sparkpilot
mkdir -p "$doc"
{
  echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
  echo "Upstream-Name: sparkpilot"
  echo
  echo "Files: *"
  sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
  echo "License: Expat"
  sed '1,/^Copyright/d; /./!s/^/./; s/^/ /' LICENSE | sed '1{/^ \.$/d}'
} >"$doc/copyright"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
cat <<EOF | gzip -9n >"$doc/changelog.Debian.gz"
sparkpilot ($version) stable; urgency=medium

  * Packed from the sources. The changes are in changelog.gz.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF

# What the program and the libraries need; the module that a launcher of several processes needs is recommended.
mkdir -p "$work/debian" "$root/DEBIAN"
printf 'Source: sparkpilot\n\nPackage: sparkpilot\nArchitecture: %s\n' "$architecture" >"$work/debian/control"
scan=()
for file in "${programs[@]}"; do
  case "$file" in
    *_mpi.so | */dist-packages/*) scan+=(-dRecommends -e"$file") ;;
    *) scan+=(-dDepends -e"$file") ;;
  esac
done
# FFmpeg's libraries are loaded by name when they are needed (src/route/video/ffmpeg.h): a library that asks for the same names.
mapfile -t later < <(tr '\0' '\n' <"$root/usr/bin/sparkpilot" | grep -aoE 'libav(format|codec|util)\.so\.[0-9]+$' | sort -u)
[ "${#later[@]}" -eq 3 ] || { echo "package: expected the names of three of FFmpeg's libraries, found: ${later[*]}" >&2; exit 1; }
"${tool}gcc" -shared -nostdlib -o "$work/later.so" -Wl,--no-as-needed "${later[@]/#/-l:}"
scan+=(-dDepends -e"$work/later.so")
depends=$(cd "$work" && dpkg-shlibdeps -O "${scan[@]}")
field() { sed -n "s/^shlibs:$1=//p" <<<"$depends"; }
recommends=$(field Recommends)
if [ -n "$python" ]; then # NAME.cpython-311-...so
  minor=$(basename "$module" | sed -n 's/.*\.cpython-3\([0-9]*\)-.*/\1/p')
  recommends="${recommends:+$recommends, }python3 (>= 3.$minor), python3 (<< 3.$((minor + 1))), python3-numpy"
fi
scripts/sbom.py --version "$version" --depends "$(field Depends)" "$root" >"$work/sbom"
mv "$work/sbom" "$doc/sparkpilot.spdx.json"
cat >"$root/DEBIAN/control" <<EOF
Package: sparkpilot
Version: $version
Section: science
Priority: optional
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
Depends: $(field Depends)
Recommends: ${recommends:+$recommends, }openmpi-bin
Suggests: g++, cmake, libonnx-dev, libprotobuf-dev, libdnnl-dev, libhwy-dev, libfmt-dev, python3
Description: development platform for openpilot's driving models
 One native program and a library that run openpilot's ONNX driving models,
 and other ONNX models, on any PC or a DGX Spark: recorded routes driven,
 models compared, quantized, adapted and trained, controllers tested in
 simulated worlds, and the machine itself checked and monitored.
 .
 "sparkpilot drive --demo" drives a synthetic road with a small model that
 comes with it. It is a tool for development, never for control of a real
 car.
EOF
for library in "$root"/usr/lib/lib*.so.*; do # NAME.so.NUMBER
  library=$(basename "$library")
  echo "${library%.so.*} ${library##*.so.} sparkpilot (>= $version)"
done >"$root/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
(cd "$root" && find usr -type f | sort | xargs -d '\n' md5sum >DEBIAN/md5sums)

find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$out"
file=$out/sparkpilot_${version}_$architecture.deb
# With one thread, so that the bytes do not depend on how many processors there are, and quickly: the level is the first.
dpkg-deb --root-owner-group --threads-max=1 -Zxz -z1 --build "$root" "$file" >/dev/null
echo "$file: $(($(stat -c %s "$file") / 1000)) kB"
