#!/bin/sh
# launch.sh CCACHE COMPILER...: a compiler through ccache, where headers are precompiled.
#
# Precompiled headers themselves are made without it: ccache gave back one that was made while a header was being
# changed. The old one goes first, as a compiler would read it instead of the headers.
out=
for word in "$@"; do
  [ "$previous" = -o ] && out=$word
  previous=$word
done
case "$out" in
  *.gch)
    rm -f "$out"
    shift
    exec "$@"
    ;;
esac
CCACHE_SLOPPINESS=pch_defines,time_macros exec "$@"
