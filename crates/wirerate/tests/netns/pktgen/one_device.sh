#!/bin/sh
# One device on one thread, ten million clones of one frame: every step of the full script in the paper of 2005.
# shellcheck source-path=SCRIPTDIR source=pgset.sh
. "${0%/*}/pgset.sh"

#modprobe pktgen

thread 0
pgset "rem_device_all"
pgset "add_device eth1"
pgset "max_before_softirq 10000"

device eth1
pgset "count 10000000"
pgset "clone_skb 1000000"
pgset "pkt_size 60"
pgset "delay 0"
pgset "dst 10.10.11.2"
pgset "dst_mac 00:04:23:08:91:dc"

device pgctrl
pgset "start"
cat /proc/net/pktgen/eth1 >&2
