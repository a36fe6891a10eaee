#!/usr/bin/env bash
# Installs a package in a fresh root, uses it there without a network as an ordinary user, compiles programs that use it, and
# removes it.
#
#   scripts/test_package.sh [FILE.deb]       as root; by default the one in out for this architecture
#
# Packs again from BUILD (build), too, and compares the bytes, if it is of this architecture; of another one, whose programs the
# kernel must know how to run, it does not, and compiles one program only. SUITE, MIRROR and COMPONENTS choose the distribution: by
# default what apt is set up for here. KEEP=DIR makes the root there and leaves it; a root that is there is used again.
set -euo pipefail
cd "$(dirname "$0")/.."
package=${1:-$(echo out/sparkpilot_*_"$(dpkg --print-architecture)".deb)}
build=${BUILD:-build}
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' | awk -v suite="$suite" '$2 == suite { print $1; exit }')}
# Ubuntu has half of what it depends on in universe.
components=${COMPONENTS:-$(apt-get indextargets --format '$(RELEASE) $(COMPONENT)' | awk -v suite="$suite" '$1 == suite { print $2 }' | sort -u | paste -sd,)}
[ -f "$package" ] || { echo "test_package: expected one package, got $package" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "test_package: a fresh root is made by root only" >&2; exit 2; }
say() { echo "== $*"; }
wrong() { echo "test_package: $*" >&2; exit 4; }

architecture=$(dpkg-deb -f "$package" Architecture)
again=$(mktemp -d)
root=${KEEP:-$again/root}
# What is installed besides to use it: MPI, NumPy, and what programs that use it are compiled with.
compilers=(gcc libc6-dev pkg-config)
if [ "$architecture" = "$(dpkg --print-architecture)" ]; then
  mapfile -t suggested < <(dpkg-deb -f "$package" Suggests | tr -d ' ' | tr ',' '\n' | grep -vx python3)
  compilers+=(make "${suggested[@]}")
fi
besides=(openmpi-bin python3-numpy "${compilers[@]}")
trap 'rm -rf "$again"' EXIT
if [ "$architecture" = "$(dpkg --print-architecture)" ]; then
  say "packed again from $build: the same bytes"
  scripts/package.sh "$build" "$again" >/dev/null
  cmp "$package" "$again/$(basename "$package")" || wrong "another pack of $build differs"
fi

if command -v lintian >/dev/null; then
  say "what lintian says (errors fail, but for the maintainer's address, which MAINTAINER gives)"
  lintian --allow-root --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$package" ||
    wrong "lintian found errors"
fi

if [ ! -x "$root/usr/bin/apt-get" ]; then
  say "a fresh $suite for $architecture from $mirror"
  debootstrap --arch="$architecture" --variant=minbase --components="${components:-main}" "$suite" "$root" "$mirror" >"$again/log" 2>&1 || { tail -5 "$again/log" >&2; exit 2; }
fi
in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
# A user of no privileges, with no network but this machine's own. The program finds what came with it by /proc.
offline() {
  unshare -n -m sh -c 'ip link set lo up && mount -t proc proc "$0/proc" && exec chroot --userspec=nobody:nogroup "$0" env -i PATH=/usr/bin:/bin HOME=/tmp/home \
    sh -c "cd /tmp/home && $1"' "$root" "$*"
}

say "installed with what it depends on"
cp "$package" "$root/tmp/sparkpilot.deb"
in_root apt-get purge -y -qq --auto-remove "${besides[@]}" sparkpilot >/dev/null 2>&1 || true  # of a run before that failed, with KEEP
packages() { in_root dpkg-query -W -f '${Package}\n' | grep -vx adduser | sort; }  # Ubuntu's apt keeps that, once it is there
before=$(packages)
in_root apt-get update -qq
in_root apt-get install -y -qq --no-install-recommends /tmp/sparkpilot.deb >"$again/log" 2>&1 || { tail -20 "$again/log" >&2; wrong "it cannot be installed"; }
in_root dpkg-query -W -f '${Package} ${Version} ${Architecture}: ${Installed-Size} kB installed\n' sparkpilot
in_root dpkg -L sparkpilot >"$again/files"
in_root ldconfig -p >"$again/known"  # as /lib/..., which is /usr/lib
for library in $(grep -E '/lib[^/]*\.so\.[0-9]+$' "$again/files"); do
  grep -qF "$(basename "$library") " "$again/known" || wrong "the loader does not know $library"
  ! in_root ldd "$library" | grep 'not found' || wrong "$library lacks a library"
done

if .venv/bin/python -c 'import spdx_tools, packageurl' 2>/dev/null; then
  say "SPDX's tools read the list of what it is made of"
  .venv/bin/python tests/sbom_test.py --list "$root/usr/share/doc/sparkpilot/sparkpilot.spdx.json" ||
    wrong "the list of what it is made of is not valid"
else
  say "the list of what it is made of is not checked: .venv has no SPDX tools (scripts/make_peers.sh formats)"
fi

say "used without a network by an ordinary user"
rm -rf "$root/tmp/home" && mkdir -m 777 "$root/tmp/home"
offline sparkpilot version
begin=$(date +%s.%N)
offline sparkpilot drive --demo
awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { printf "the demo took %.1f s\n", b - a; exit b - a > 10 ? 1 : 0 }' ||
  echo "test_package: more than ten seconds (a busy machine?)" >&2
[ -s "$root/tmp/home/sparkpilot-demo/summary.html" ] || wrong "the demo left no page"
offline sparkpilot zoo build --quiet tiny_driving_policy --out .
offline sparkpilot run --quiet tiny_driving_policy.onnx >/dev/null
offered=$(offline 'bash -c "source /usr/share/bash-completion/completions/sparkpilot
  COMP_WORDS=(sparkpilot dr) COMP_CWORD=1; _sparkpilot; echo \${COMPREPLY[*]}"')
[ "$offered" = drive ] || wrong "bash completes \"dr\" to \"$offered\""
[ -s "$root/usr/share/man/man1/sparkpilot-drive.1.gz" ] || [ -f "$root/etc/dpkg/dpkg.cfg.d/docker" ] || wrong "no manual page"

if grep -q dist-packages "$again/files"; then
  say "used from Python"
  in_root apt-get install -y -qq --no-install-recommends python3-numpy >"$again/log" 2>&1 || { tail -20 "$again/log" >&2; wrong "NumPy cannot be installed"; }
  cat >"$root/tmp/home/use.py" <<'EOF'
import numpy as np
import sparkpilot
from sparkpilot.worlds import Worlds
session = sparkpilot.Session("/usr/share/sparkpilot/models/demo_supercombo.onnx", threads=1)
session.run()
assert np.isfinite(session.outputs["outputs"]).all()
assert sparkpilot.commands.program() == "/usr/bin/sparkpilot"
assert Worlds(2).reset(seed=1).shape[0] == 2
sparkpilot.run("route synth", out="routes", seconds=0.5, no_video=True)
assert sparkpilot.LogReader("routes").first("initData").deviceType == "tici"
assert sparkpilot.__file__.startswith("/usr/lib/python3/dist-packages/")
EOF
  offline "python3 use.py" || wrong "the Python module cannot be used"
  in_root python3 -c 'import sparkpilot.worlds' # by root, whose Python keeps compiled files beside the package
fi

say "used by two processes"
in_root apt-get install -y -qq --no-install-recommends openmpi-bin >"$again/log" 2>&1 || { tail -20 "$again/log" >&2; wrong "MPI cannot be installed"; }
run="sparkpilot sim run --quiet --json --device cpu --threads 1 --algorithm lateral_pid --scenarios curves --variants 1"
offline "$run --out one >/dev/null && mpirun --oversubscribe -np 2 $run --out two >two.json && cmp one/results.csv two/results.csv" ||
  wrong "two processes do not give what one gives"
grep -q '"processes": 2' "$root/tmp/home/two.json" || wrong "mpirun started two runs, not two processes of one"

say "used by other programs"
in_root apt-get install -y -qq --no-install-recommends "${compilers[@]}" >"$again/log" 2>&1 || { tail -20 "$again/log" >&2; wrong "what it suggests cannot be installed"; }
block() { # of a page: what is between the lines ```LANGUAGE and ```
  sed -n "/^\`\`\`$2\$/,/^\`\`\`\$/{//!p}" "$1"
}
mkdir -m 777 "$root/tmp/home/app"
block docs/install.md c >"$root/tmp/home/main.c"
compile=$(grep -o '^`cc main\.c [^`]*`' docs/install.md | tr -d '`') || wrong "docs/install.md does not say how main.c is compiled"
said=$(offline "$compile && ./a.out tiny_driving_policy.onnx") || wrong "the program in C of docs/install.md cannot be compiled or run"
[[ "$said" =~ ^outputs\ has\ [0-9]+\ bytes$ ]] || wrong "the program in C of docs/install.md says $said"
echo "$said"
if [ "$architecture" = "$(dpkg --print-architecture)" ]; then
  cp tests/sim_env_test.c "$root/tmp/home"
  offline "cc -std=c99 -Wall -Wextra -Wpedantic -Werror sim_env_test.c -lsparkpilot_sim -lm -o sim_env_test && ./sim_env_test" ||
    wrong "the simulated worlds cannot be used from C"
  block README.md cmake >"$root/tmp/home/app/CMakeLists.txt"
  cp examples/build_graph.cc "$root/tmp/home/app/main.cc"
  offline "cmake -S app -B app/build >/dev/null && cmake --build app/build >/dev/null && app/build/app" ||
    wrong "a program in C++ cannot be built by CMake or run"
else
  say "not tried for $architecture: a program in C++ and one of simulated worlds (an emulator compiles slowly)"
fi

say "removed"
in_root apt-get purge -y -qq "${besides[@]}" sparkpilot >"$again/log" 2>&1 || { tail -20 "$again/log" >&2; wrong "it cannot be removed"; }
left=$(while read -r file; do [ -d "$root$file" ] || [ ! -e "$root$file" ] || echo "$file"; done <"$again/files")
[ -z "$left" ] || wrong "it left $left"
for folder in usr/share/sparkpilot usr/lib/python3/dist-packages/sparkpilot; do
  [ ! -e "$root/$folder" ] || wrong "it left /$folder"
done
in_root apt-get autoremove -y -qq --purge >/dev/null 2>&1
after=$(packages)
[ "$before" = "$after" ] || wrong "other packages than before: $(diff <(echo "$before") <(echo "$after"))"
say "all is well"
