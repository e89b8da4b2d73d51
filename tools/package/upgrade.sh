#!/bin/bash
# In a root with an older package: upgrades while `wirerate serve` runs, sends by a script, and purges.
#
#   upgrade.sh NEW.deb VERSION
set -euo pipefail

fail() {
	echo "upgrade: $*" >&2
	exit 1
}

ip link set lo up
wirerate serve >/tmp/serve 2>&1 &
serve=$!
for _ in $(seq 100); do
	[ ! -e /run/wirerate/pktgen/pgctrl ] || break
	sleep 0.1
done
[ -e /run/wirerate/pktgen/pgctrl ] || fail "serve has no control files: $(cat /tmp/serve)"
dpkg --install "$1" >/tmp/dpkg 2>&1 || fail "the upgrade failed: $(cat /tmp/dpkg)"
[ "$(wirerate --version | head -n 1)" = "wirerate $2" ] || fail "the new program is not there"
kill -0 "$serve" || fail "the upgrade ended serve"
echo reset >/run/wirerate/pktgen/pgctrl || fail "the running serve does not answer"
# A shell without job control starts it with Ctrl-C ignored.
kill -TERM "$serve"
wait "$serve" || fail "serve ended with an error: $(cat /tmp/serve)"

# A script of the kernel's packet generator, as it would be for pktgen.
ip link add tx0 numtxqueues 2 type veth peer rx0
ip link set tx0 up && ip link set rx0 up
cat >/tmp/script <<'END'
set -e
cd /proc/net/pktgen
echo "add_device tx0" >kpktgend_0
echo "count 1000" >tx0
echo "dst 198.18.0.2" >tx0
echo "dst_mac $(cat /sys/class/net/rx0/address)" >tx0
echo start >pgctrl
grep -q "^Result: OK" tx0
END
wirerate exec -- bash /tmp/script >/tmp/exec 2>&1 || fail "the script failed: $(cat /tmp/exec)"
received=$(cat /sys/class/net/rx0/statistics/rx_packets)
[ "$received" -ge 1000 ] || fail "$received frames arrived instead of 1000: $(cat /tmp/exec)"
ip link del tx0

dpkg --purge wirerate >/tmp/dpkg 2>&1 || fail "purging failed: $(cat /tmp/dpkg)"
rm -f /tmp/serve /tmp/dpkg /tmp/exec /tmp/script
echo "upgrade: upgraded beside a running serve, ran a script, purged"
