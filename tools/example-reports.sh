#!/bin/bash
# Searches the throughput of a Linux bridge and of an XDP forwarder and writes the results of each to
# a folder. Everything happens in two network namespaces, which are removed.
#
# usage: tools/example-reports.sh DIR     (as root; WIRERATE is the program, else that of the PATH)
# It takes two to six minutes. On a machine with other load, bounds stay open: it prints how each
# search ended. `chrt -f 5` before it lets the sender go before all other work, once
# `sysctl kernel.sched_rt_runtime_us=-1` lets such a process have a CPU for the whole of each second.
set -euo pipefail
dir=$(realpath "${1:?folder for the results}")
mkdir -p "$dir"
wirerate=${WIRERATE:-wirerate}
tester=wirerate-example-tester dut=wirerate-example-dut
work=$(mktemp -d)

remove() {
	ip netns del $tester 2>/dev/null || true
	ip netns del $dut 2>/dev/null || true
}
trap 'remove; rm -r "$work"' EXIT
remove

# The tester has t0 and t1, the device under test r0 and r1.
ip netns add $tester
ip netns add $dut
for netns in $tester $dut; do
	# Else the kernel sends frames of its own. A kernel without IPv6 has no such setting.
	ip netns exec "$netns" sysctl -q -e -w net.ipv6.conf.default.disable_ipv6=1
done
for n in 0 1; do
	ip -n $dut link add r$n type veth peer name t$n netns $tester
	ip -n $tester link set t$n up
	ip -n $dut link set r$n up
done
search() { # NAME
	ip netns exec $tester "$wirerate" search --tx t0 --rx t1 --size 64,512,1518 --method quick \
		--loss 0 --loss 0.5% --budget 45s --min-pps 500 --max-pps 60k --json -- --dst 198.18.0.2 --dst-mac 02:00:00:00:00:99 >"$work/$1.jsonl" ||
		[ $? = 1 ] # some bounds are open
	cp "$work/$1.jsonl" "$dir/$1.jsonl"
	echo "$dir/$1.jsonl: $(grep -o '"end":"[a-z_]*"' "$work/$1.jsonl" | sort | uniq -c | xargs)"
}

ip -n $dut link add br0 type bridge mcast_snooping 0
ip -n $dut link set r0 master br0
ip -n $dut link set r1 master br0
ip -n $dut link set br0 up
# The bridge sends at most 10 Mbit/s.
tc -n $dut qdisc add dev r1 root tbf rate 10mbit burst 10kb limit 100kb
search linux-bridge
ip -n $dut link del br0

out=$(ip netns exec $dut cat /sys/class/net/r1/ifindex)
# It passes 20,000 frames per second and bursts of 1,000.
cat >"$work/forward.c" <<END
static unsigned long (*now_ns)(void) = (void *)5;                          /* bpf_ktime_get_ns */
static long (*redirect)(unsigned ifindex, unsigned long flags) = (void *)23; /* bpf_redirect */
static volatile unsigned long empty_at_ns;

__attribute__((section("xdp"), used)) int forward(void *context)
{
	unsigned long now = now_ns(), interval_ns = 50000;

	(void)context;
	if (empty_at_ns < now)
		empty_at_ns = now;
	if (empty_at_ns > now + 1000 * interval_ns)
		return 1; /* XDP_DROP */
	empty_at_ns += interval_ns;
	return redirect($out, 0);
}

char terms[] __attribute__((section("license"), used)) = "Dual BSD/GPL";
END
clang -O2 -target bpf -c "$work/forward.c" -o "$work/forward.o"
ip -n $dut link set r0 xdp object "$work/forward.o" section xdp
search xdp-forwarder
