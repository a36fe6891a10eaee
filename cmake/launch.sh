#!/bin/sh
# launch.sh CCACHE COMPILER...: a compiler through ccache, where headers are precompiled.
#
# The old precompiled header goes before the new one is made: ccache would take it for what the compiler reads, and give
# back what it had made of the old one.
out=
for word in "$@"; do
  [ "$previous" = -o ] && out=$word
  previous=$word
done
case "$out" in
  *.gch) rm -f "$out" ;;
esac
CCACHE_SLOPPINESS=pch_defines,time_macros exec "$@"
