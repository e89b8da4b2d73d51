#!/bin/sh
# 8,192 flows of four frames each.
# shellcheck source-path=SCRIPTDIR source=pgset.sh
. "${0%/*}/pgset.sh"
thread 0
pgset "rem_device_all"
pgset "add_device eth1"
device eth1
pgset "clone_skb 0"
pgset "dst_min 10.0.0.0"
pgset "dst_max 10.255.255.255"
pgset "flows 8192"
pgset "flowlen 4"
