#!/usr/bin/env bash
# Writes src/ops/list.inc anew from the sources: one sorted line for each `namespace sparkpilot::x_ops {`. A conflict
# in that file is resolved by running this.
set -euo pipefail
cd "$(dirname "$0")/../src/ops"
{
  echo '// Every file of ops, a line each: SPARKPILOT_OPS(x) means that some file under src/ops defines `x_ops::all()`.'
  find . -name '*.cc' -exec sed -nE 's/^namespace sparkpilot::([a-z0-9_]+)_ops \{.*/SPARKPILOT_OPS(\1)/p' {} + | LC_ALL=C sort -u
} >list.inc.new
mv list.inc.new list.inc
