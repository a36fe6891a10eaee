#!/usr/bin/env bash
# Builds the last commit a second time, in a clone in another folder, and packs it: both packages must be the same bytes.
#
#   scripts/test_reproducible.sh [CLONE]        by default a clone of its own, removed afterwards (twenty minutes on two cores)
#
# CLONE: that folder; one that is there, at the same commit, is used again with what it has built. JOBS: by default all.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
wrong() { echo "test_reproducible: $2" >&2; exit "$1"; }
git diff --quiet HEAD || wrong 2 "this tree differs from its last commit, which is what a clone has"

own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
clone=${1:-$own/clone}
[ -d "$clone" ] || git clone -q . "$clone"
[ "$(git -C "$clone" rev-parse HEAD)" = "$(git rev-parse HEAD)" ] || wrong 2 "$clone is at another commit"
git -C "$clone" diff --quiet HEAD || wrong 2 "$clone differs from its last commit"

# Objects that a cache keeps of one build would make the other the same.
for folder in "$PWD" "$clone"; do
  echo "== built and packed in $folder"
  CCACHE_DISABLE=1 make -C "$folder" --no-print-directory JOBS="$jobs" package
done
package=out/sparkpilot_$(sed -n 's/^project(sparkpilot VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)-1_$(dpkg --print-architecture).deb
if cmp "$package" "$clone/$package"; then
  echo "== two builds, the same bytes: $(sha256sum "$package")"
else
  dpkg-deb -x "$package" "$own/here"
  dpkg-deb -x "$clone/$package" "$own/there"
  wrong 4 "two builds differ: $(diff -rq "$own/here" "$own/there" | head -20)"
fi
