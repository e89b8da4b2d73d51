#!/bin/sh
# Two devices on one thread.
# shellcheck source-path=SCRIPTDIR source=pgset.sh
. "${0%/*}/pgset.sh"
thread 0
pgset "rem_device_all"
pgset "add_device eth1"
pgset "add_device eth2"
