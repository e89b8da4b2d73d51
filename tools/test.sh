#!/usr/bin/env bash
# Runs every test: those of cargo, then those in virtual machines. What was skipped and what failed is
# listed at the end, a line each, so that the last lines of a long log tell it.
#
#   tools/test.sh VM_PROGRAM          (as root; WIRERATE names the program under test)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

vm=${1:?the program that runs the virtual machines}
work=$(mktemp -d) || exit 1
trap 'rm -rf -- "$work"' EXIT
export WIRERATE_SKIPS=$work/skips
: >"$WIRERATE_SKIPS"
# A shell that starts us in the background lets us inherit an ignored Ctrl-C, which is what some tests send.
with_signals() { env --default-signal=INT,QUIT,HUP,TERM "$@"; }
status=0

with_signals cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$work/cargo" || status=1
with_signals "$vm" 2>&1 | tee "$work/vm" || status=1

echo "tests skipped: $(wc --lines <"$WIRERATE_SKIPS")"
sort "$WIRERATE_SKIPS"
# A test's name, and the first line of what it said when it failed.
awk '
	/^---- .* ----$/ { name = $2; next }
	name && NF && !/ panicked at / { said[name] = $0; name = "" }
	/^test .* \.\.\. FAILED$/ { failed[$2] }
	/^error: (could not compile|test failed|doctest failed)/ { failed[$0] }
	END { for (test in failed) print "failed: " test (test in said ? ": " said[test] : "") }
' "$work/cargo" | sort
# A case of a virtual machine has a row first, and its reason later.
awk '
	$3 == "FAILED" { failed[$1 " " $2 ":"] }
	($1 " " $2) in failed { print "failed: virtual machine " $0 }
' "$work/vm"
exit "$status"
