#!/usr/bin/env bash
# clang-format on every source, the include rules, and clang-tidy on the sources changed since main (or, on main itself,
# in its last commit); ALL=1 takes all of them. `make lint` calls this.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
failed=0

sources=(src include tests examples)
mapfile -t files < <(find "${sources[@]}" -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' | sort)

echo "== clang-format: ${#files[@]} files"
printf '%s\n' "${files[@]}" | xargs -P "$jobs" -n 20 clang-format --dry-run -Werror || failed=1

echo "== include rules"
tests/include_rules.py || failed=1

# clang-tidy reads how each file is compiled by itself.
cmake --log-level=WARNING --preset lint >/dev/null
cmake --build build-lint --target cereal_headers >/dev/null
if [ -n "${ALL:-}" ]; then
  changed=("${files[@]}")
else
  since=HEAD~1
  if git rev-parse -q --verify main >/dev/null && [ "$(git rev-parse main)" != "$(git rev-parse HEAD)" ]; then
    since=$(git merge-base main HEAD)
  fi
  git rev-parse -q --verify "$since" >/dev/null || since=$(git hash-object -t tree /dev/null)
  mapfile -t changed < <({ git diff --name-only --diff-filter=d "$since"; git ls-files -o --exclude-standard; } | sort -u)
fi
mapfile -t units < <(printf '%s\n' "${changed[@]}" | grep -E '^(src|tests|examples)/.*\.cc$' || true)
# Only what the build compiles: fuzz targets are compiled by clang in a build of their own.
mapfile -t units < <(for unit in "${units[@]}"; do grep -qF "/$unit\"" build-lint/compile_commands.json && echo "$unit"; done)
# g++'s options mean nothing to clang-tidy.
sed -i -E 's/ (--param=[^ ]+|-Wshadow=local)//g' build-lint/compile_commands.json
echo "== clang-tidy: ${#units[@]} files"
if [ ${#units[@]} -gt 0 ]; then
  printf '%s\n' "${units[@]}" | xargs -P "$jobs" -n 1 clang-tidy -p build-lint --quiet 2> >(grep -v "warnings\? .*generated\.$" >&2) || failed=1
fi
exit $failed
