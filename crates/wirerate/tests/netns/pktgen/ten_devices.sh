#!/bin/sh
# Ten devices on two threads, until Ctrl-C.
# shellcheck source-path=SCRIPTDIR source=pgset.sh
. "${0%/*}/pgset.sh"
# Ctrl-C ends the run; the shell goes on and shows the results.
trap true INT

thread 0
pgset "rem_device_all"
for number in 3 5 7 9 11; do
	pgset "add_device eth$number"
done
pgset "max_before_softirq 10000"

thread 1
pgset "rem_device_all"
for number in 2 4 6 8 10; do
	pgset "add_device eth$number"
done
pgset "max_before_softirq 10000"

for number in 2 3 4 5 6 7 8 9 10 11; do
	device "eth$number"
	pgset "clone_skb 500000"
	pgset "min_pkt_size 60"
	pgset "max_pkt_size 60"
	# For 10 and 11 this is not an address; the kernel accepts any text, wirerate refuses it.
	pgset "dst 192.168.3.10$number"
	pgset "dst_mac 01:02:03:04:05:0$number"
	pgset "count 0"
done

device pgctrl
pgset "start"
tail -qn2 /proc/net/pktgen/eth*
