#!/usr/bin/env bash
# Packs the program for 64-bit Arm: `make package-arm64`. What `make arm64` built is packed in a root of that architecture, where
# the distribution says to which packages its libraries belong, as a Debian package and as a wheel. The wheel is used in an
# environment of Python there, the package tested in a fresh root.
#
# As root. The roots' programs run under qemu-user-static, which the kernel must know (binfmt_misc). KEEP=DIR is the root that packs, by
# default build-aarch64/root; one that is there is used again. MIRROR: where packages are, by default what apt is set up for here.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build-aarch64
root=$(realpath -m "${KEEP:-$build/root}")
[ "$(id -u)" -eq 0 ] || { echo "package_arm64: a root of another architecture is made by root only" >&2; exit 2; }
[ -x "$build/sparkpilot" ] || { echo "package_arm64: $build/sparkpilot is not there (make arm64)" >&2; exit 2; }
if ! grep -qs enabled /proc/sys/fs/binfmt_misc/qemu-aarch64; then
  echo "package_arm64: this kernel does not run Arm's programs (binfmt_misc has no qemu-aarch64; qemu-user-static brings it)" >&2
  exit 2
fi
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' | awk -v suite="$suite" '$2 == suite { print $1; exit }')}
mapfile -t libraries <scripts/arm64_libraries.txt
say() { echo "== $*"; }

# The tree lies where it lies here, as the build's files name it. Mounts end with the shell.
in_root() {
  mkdir -p "$root$PWD"
  unshare -m sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --bind "$1" "$0$1" && directory=$1 && shift &&
    exec chroot "$0" env -i -C "$directory" PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' \
    "$root" "$PWD" "$@"
}

if [ "$(cat "$root/complete" 2>/dev/null)" != "${libraries[*]}" ]; then
  say "a root for arm64: $suite from $mirror"
  [ -x "$root/usr/bin/apt-get" ] || debootstrap --arch=arm64 --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" >/dev/null
  in_root apt-get update -qq
  in_root apt-get install -y -qq --no-install-recommends cmake dpkg-dev gcc python3-numpy python3-venv "${libraries[@]}" >/dev/null
  echo "${libraries[*]}" >"$root/complete"
fi
say "packed"
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target sparkpilot sparkpilot_library c_shared sim_shared sparkpilot_mpi \
  sparkpilot_python >/dev/null
in_root env SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" scripts/package.sh "$build" "$PWD/out"
in_root scripts/make_wheel.py "$build"
say "the wheel, in an environment of Python"
cat >"$root/tmp/use.sh" <<'EOF'
set -e
cd /tmp
rm -rf env
python3 -m venv --system-site-packages env
env/bin/pip install --quiet --no-index "$1"
env/bin/sparkpilot version
env/bin/python - <<'PYTHON'
import sys
import numpy as np
import sparkpilot
from sparkpilot.worlds import Worlds
assert sparkpilot.__file__.startswith("/tmp/env/") and sparkpilot.commands.program() == "/tmp/env/bin/sparkpilot"
session = sparkpilot.Session(sys.prefix + "/share/sparkpilot/models/demo_supercombo.onnx", threads=1)
session.run()
assert np.isfinite(session.outputs["outputs"]).all()
assert Worlds(2).reset(seed=1).shape[0] == 2
sparkpilot.run("route synth", out="routes", seconds=0.5, no_video=True)
assert sparkpilot.LogReader("routes").first("initData").deviceType == "tici"
PYTHON
EOF
in_root sh /tmp/use.sh "$(echo "$PWD"/out/sparkpilot-*_aarch64.whl)"
env -u KEEP scripts/test_package.sh out/sparkpilot_*_arm64.deb  # in a root of its own
