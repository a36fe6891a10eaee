#!/usr/bin/env bash
# Configures and builds this tree's last commit in a root of another release of the distribution, and runs the tests there.
#
#   scripts/test_release.sh [SUITE]       as root; by default trixie (Debian 13: g++ 14, oneDNN 3, Highway 1.2);
#                                         noble is Ubuntu 24.04, of which DGX OS 7 is made (g++ 13, oneDNN 3, Highway 1.0)
#
# MIRROR: where its packages are, by default Debian's, for noble Ubuntu's. KEEP=DIR makes the root there and leaves it; one that
# is there is used again, with what it has built. JOBS: 2. Takes about an hour on two cores. Without nvcc, unless the root has
# one. Ubuntu's signatures are checked where its key ring is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-trixie}
if [ "$suite" = noble ]; then
  mirror=${MIRROR:-http://archive.ubuntu.com/ubuntu}
  how=(--components=main,universe)
  script=(/usr/share/debootstrap/scripts/gutsy)  # that of all of Ubuntu's, which Debian 12's debootstrap does not know by this name
else
  mirror=${MIRROR:-http://deb.debian.org/debian}
  how=() script=()
fi
jobs=${JOBS:-2}
[ "$(id -u)" -eq 0 ] || { echo "test_release: a root of another release is made by root only" >&2; exit 2; }
say() { echo "== $*"; }

own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
root=${KEEP:-$own/root}
if [ ! -x "$root/usr/bin/apt-get" ]; then
  say "a fresh $suite from $mirror"
  debootstrap --variant=minbase --include=ca-certificates "${how[@]}" "$suite" "$root" "$mirror" "${script[@]}" >"$own/log" 2>&1 || { tail -5 "$own/log" >&2; exit 2; }
fi
# Mounts end with the shell.
in_root() {
  unshare -m sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/tmp" &&
    exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' \
    "$root" "$@"
}

say "the last commit"
tree=$root/src/sparkpilot
[ -d "$tree/.git" ] || git init -q "$tree"
git -C "$tree" fetch -q "$PWD" HEAD
git -C "$tree" reset -q FETCH_HEAD  # files that are as they were keep their times, and what was built of them
git -C "$tree" checkout -q -- .
git -C "$tree" clean -qfd
in_root /src/sparkpilot/scripts/install_deps.sh
say "configured and built with $(in_root g++ --version | head -1)"
in_root sh -c "cd /src/sparkpilot && cmake --preset release && cmake --build build -j$jobs"
say "the tests"
in_root sh -c "cd /src/sparkpilot && export SPARKPILOT_TEST_FOLDER=\$(mktemp -d) && chmod 755 \$SPARKPILOT_TEST_FOLDER &&
  ctest --test-dir build -j$jobs -LE '^(peers|gpu)$' --output-on-failure"
say "the demo"
in_root sh -c "cd /tmp && /src/sparkpilot/build/sparkpilot drive --demo --quiet && /src/sparkpilot/build/sparkpilot version"
