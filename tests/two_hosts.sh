#!/usr/bin/env bash
# two_hosts.sh PROGRAM ARGUMENT...: runs it under mpirun as two processes on two hosts, which are network namespaces of
# this machine, joined by a virtual cable: nothing but TCP joins the processes. The last line on stderr says how many
# bytes went over the cable from the first to the second. Exit code 77, with the reason, where this is not permitted.
set -euo pipefail

work=$(mktemp -d)
hosts=()
clean() {
  for pid in "${hosts[@]}"; do kill "$pid" 2> /dev/null || true; done  # a namespace ends with its last process
  rm -rf "$work"
}
trap clean EXIT
skip() {
  echo "two_hosts.sh: $1" >&2
  exit 77
}

for tool in ip unshare nsenter mpirun; do
  command -v "$tool" > /dev/null || skip "$tool is not installed"
done
own=$(readlink /proc/self/ns/net)
for _ in 1 2; do
  unshare --net --uts sleep 900 2> "$work/why" &
  hosts+=($!)
  for ((i = 0; i < 100; ++i)); do
    kill -0 $! 2> /dev/null || skip "no network namespaces: $(cat "$work/why")"
    [ "$(readlink "/proc/$!/ns/net" || true)" != "$own" ] && break
    sleep 0.05
  done
done
in_host() { nsenter --target "${hosts[$1]}" --net --uts "${@:2}"; }

ip link add sparkpilot0 netns "${hosts[0]}" type veth peer name sparkpilot1 netns "${hosts[1]}" 2> "$work/why" ||
  skip "no virtual cable: $(cat "$work/why")"
for host in 0 1; do
  in_host $host ip link set lo up
  in_host $host ip address add "10.77.0.$((host + 1))/24" dev "sparkpilot$host"
  in_host $host ip link set "sparkpilot$host" up
  in_host $host hostname "host$host"
done

# In the place of ssh: AGENT HOST COMMAND...
cat > "$work/agent" << EOF
#!/bin/sh
shift
exec nsenter --target ${hosts[1]} --net --uts sh -c "\$*"
EOF
chmod +x "$work/agent"
code=0
in_host 0 mpirun --allow-run-as-root --host 10.77.0.1:1,10.77.0.2:1 --mca plm_rsh_agent "$work/agent" --mca btl tcp,self \
  --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "$@" || code=$?
echo "sent: $(in_host 0 cat /proc/net/dev | awk '$1 == "sparkpilot0:" { print $10 }') bytes" >&2
exit $code
