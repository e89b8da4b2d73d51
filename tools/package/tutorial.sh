#!/bin/bash
# Runs the commands of the tutorial as written, in a root with the package, tshark, ip and ethtool.
#
#   tutorial.sh PAGE
set -euo pipefail
page=$1
cd "$(mktemp -d)"

fail() {
	echo "tutorial: $*" >&2
	exit 1
}

# The commands of a section: the indented lines that begin with a program.
commands() {
	sed -n "/^## $1\\./,/^## /s/^    \\(\\(ip\\|wirerate\\|tshark\\) .*\\)/\\1/p" "$page"
}

# The command of a section that begins with these words.
command_of() {
	commands "$1" | grep --max-count=1 "^$2" || fail "section $1 has no command \"$2\""
}

# until_true COMMAND...: waits for an event that no descriptor reports.
until_true() {
	local tries
	for tries in $(seq 100); do
		"$@" && return
		sleep 0.1
	done
	fail "still not so after $tries tries: $*"
}

has_xdp() {
	ip -n rx -d link show rx0 | grep --quiet xdp
}

while read -r line; do
	eval "$line" >>output 2>&1 || fail "\"$line\" failed: $(cat output)"
done < <(commands 1)
grep --quiet 'send uses xdp' output || fail "doctor does not say that send uses xdp: $(cat output)"

send=$(command_of 2 'wirerate send tx0 --netns')
eval "$send" >output 2>&1 || fail "$send: $(cat output)"
grep --quiet '^  sent  *15 ' output || fail "$send did not send 15 frames: $(cat output)"
eval "$(command_of 2 'wirerate send tx0 --dst')" >output 2>&1 || fail "the dry run failed: $(cat output)"

# Ctrl-C ends it as the page says.
eval "exec $(command_of 3 'wirerate sink')" >sink 2>&1 &
until_true has_xdp
eval "$(command_of 3 'wirerate send')" >output 2>&1 || fail "sending a million failed: $(cat output)"
kill -INT $!
wait $! || fail "sink failed: $(cat sink)"
grep --quiet 'received  *1,000,000 ' sink || fail "sink did not receive all: $(cat sink)"

eval "$(command_of 4 'wirerate capture')" >capture 2>&1 &
until_true has_xdp
eval "$send" >output 2>&1
wait $! || fail "capture failed: $(cat capture)"
lines=$(eval "$(command_of 5 'tshark -r')" 2>/dev/null | grep --count PKTGEN) || true
[ "$lines" = 5 ] || fail "tshark shows $lines packets instead of 5"

eval "$(command_of 5 'wirerate capture')" >live 2>output &
until_true has_xdp
eval "$send" >sent 2>&1
# tshark prints what it has at the end, when its output is no terminal.
pkill -INT -x wirerate
wait
[ "$(grep --count '198.18.0.1 ' live)" -ge 15 ] || fail "tshark did not show the packets live: $(cat live output)"

while read -r line; do
	eval "$line" || fail "\"$line\" failed"
done < <(commands 6)
echo "tutorial: all commands did what the page says"
