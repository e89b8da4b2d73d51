# shellcheck shell=sh
# Writes one command to the file $PGDEV, and prints its result where it was not accepted.
pgset() {
	echo "$1" >"$PGDEV"
	grep --quiet "Result: OK:" "$PGDEV" || grep "Result:" "$PGDEV"
}

thread() { PGDEV=/proc/net/pktgen/kpktgend_$1; }
device() { PGDEV=/proc/net/pktgen/$1; }
