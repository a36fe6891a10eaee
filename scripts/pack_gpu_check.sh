#!/usr/bin/env bash
# Packs gpu_check for a machine where nothing is installed: out/gpu_check.tar.gz with the program, its script, the adapters
# of other engines, and the shared libraries that it needs, except the C library's own, which must be as new as here.
#
#   scripts/pack_gpu_check.sh [DIR]        after `cmake --build build --target gpu_check`; DIR/gpu_check.tar.gz instead
set -euo pipefail
cd "$(dirname "$0")/.."
most=$((40 << 20))
out=${1:-out}
folder=$out/gpu_check
case "$(build/gpu_check --version)" in
  *none)
    echo "pack_gpu_check: build/gpu_check holds no GPU code; install nvcc and build again (docs/cuda.md)" >&2
    exit 1
    ;;
esac
rm -rf "$folder"
mkdir -p "$folder/lib" "$folder/peers"
strip -o "$folder/gpu_check" build/gpu_check
cp scripts/gpu_check.sh "$folder/"
cp peers/*.py "$folder/peers/"
git describe --always --dirty --abbrev=40 --exclude '*' >"$folder/commit" 2>/dev/null || echo unknown >"$folder/commit"
ldd build/gpu_check | awk '$2 == "=>" { print $1, $3 }' | while read -r name file; do
  case "$name" in
    libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.* | libutil.so.*) continue ;;
  esac
  if [ ! -f "$file" ]; then
    echo "pack_gpu_check: $name is not found" >&2
    exit 1
  fi
  strip --strip-unneeded -o "$folder/lib/$name" "$file"
done
# Every other library comes from the package, whatever the machine has.
foreign=$(ldd "$folder/gpu_check" | awk '$2 == "=>" && $1 !~ /^lib(c|m|pthread|dl|rt|resolv|util)\.so/ { print $3 }' |
  grep -vF "$(realpath "$folder")/lib/" || true)
if [ -n "$foreign" ]; then
  echo "pack_gpu_check: expected all libraries from the package, got $foreign" >&2
  exit 1
fi
tar -C "$out" --owner=0 --group=0 --sort=name -cf - gpu_check | gzip -6 >"$out/gpu_check.tar.gz"
size=$(stat -c %s "$out/gpu_check.tar.gz")
echo "$out/gpu_check.tar.gz: $((size / 1000)) kB, GPU code:$(build/gpu_check --version | sed 's/.*code://')"
if [ "$size" -gt "$most" ]; then
  echo "pack_gpu_check: expected at most $most bytes, got $size" >&2
  exit 1
fi
