#!/bin/bash
# In a container with the package and systemd: starts services, uses them, and stops them.
#
#   services.sh
set -euo pipefail

fail() {
	echo "services: $*"
	journalctl --no-pager --unit 'wirerate*' || true
	exit 1
}

# microseconds_of UNIT EVENT: when systemd saw it.
microseconds_of() {
	systemctl show --property "$2TimestampMonotonic" --value "$1"
}

# quick UNIT MICROSECONDS: the start of a service took less than a second.
quick() {
	[ "$2" -lt 1000000 ] || fail "$1 started after $2 µs, which must be less than a second"
	echo "services: $1 started after $2 µs"
}

stop() {
	systemctl stop "$1"
	[ "$(systemctl show --property NRestarts --property Result "$1" | sort | tr '\n' ' ')" = "NRestarts=0 Result=success " ] ||
		fail "$1 did not end well"
}

listens() {
	: <>"/dev/tcp/127.0.0.1/$1"
}

systemctl start wirerate || fail "wirerate does not start"
quick wirerate $(($(microseconds_of wirerate ActiveEnter) - $(microseconds_of wirerate InactiveExit)))
# Its control files are there for other processes, such as this one.
ip link add tx0 numtxqueues 2 type veth peer rx0
ip link set tx0 up && ip link set rx0 up
cd /run/wirerate/pktgen
echo "add_device tx0" >kpktgend_0
for line in "count 1000" "dst 198.18.0.2" "dst_mac $(cat /sys/class/net/rx0/address)"; do
	echo "$line" >tx0
done
echo start >pgctrl || fail "the frames are not sent: $(cat tx0)"
grep --quiet '^Result: OK' tx0 || fail "the frames are not sent: $(cat tx0)"
[ "$(cat /sys/class/net/rx0/statistics/rx_packets)" -ge 1000 ] || fail "the frames do not arrive"
cd /
stop wirerate
! grep wirerate /proc/mounts || fail "a mount is left"

begin=${EPOCHREALTIME/./}
systemctl start wirerate-otg || fail "wirerate-otg does not start"
until listens 8443 2>/dev/null; do
	systemctl --quiet is-active wirerate-otg || fail "wirerate-otg ended"
	sleep 0.01
done
quick wirerate-otg $((${EPOCHREALTIME/./} - begin))
stop wirerate-otg
