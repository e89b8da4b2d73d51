#!/bin/sh
# A device on each of two threads.
# shellcheck source-path=SCRIPTDIR source=pgset.sh
. "${0%/*}/pgset.sh"
thread 0
pgset "rem_device_all"
pgset "add_device eth1"
thread 1
pgset "rem_device_all"
pgset "add_device eth2"
