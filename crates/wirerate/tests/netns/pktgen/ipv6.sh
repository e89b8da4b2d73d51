#!/bin/sh
# IPv6 addresses, one pair and then a range.
# shellcheck source-path=SCRIPTDIR source=pgset.sh
. "${0%/*}/pgset.sh"
thread 0
pgset "rem_device_all"
pgset "add_device eth1"
device eth1
pgset "dst6 fec0::1"
pgset "src6 fec0::2"
pgset "clone_skb 0"
pgset "dst6_min fec0::1"
pgset "dst6_max fec0::FFFF:FFFF"
