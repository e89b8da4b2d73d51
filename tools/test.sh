#!/usr/bin/env bash
# Runs every test in three lanes: the virtual machines with all tests that need neither them nor network
# namespaces beside them, then the end-to-end tests between namespaces. A test that fails beside others has to
# pass three times by itself, and the run says so. At the end it prints a table of what each lane took, each skip
# and each failure on a line of its own, and last the command that repeats a failed fuzz round.
#
#   tools/test.sh               all tests, as root
#   tools/test.sh --lib ...     only these targets, as cargo names them, in one lane without a repetition; root is
#                               not needed, and output is printed only if a test fails
#
# The program, that of the virtual machines and all tests are built with the profile `ci`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

folder=${CARGO_TARGET_DIR:-$PWD/target}/ci
export WIRERATE=$folder/wirerate
work=$(mktemp -d) || exit 1
trap 'rm -rf -- "$work"' EXIT
# A signal ends the lanes, too, which then remove what they made.
end_children() {
	local child
	for child in $(pgrep --parent "$1"); do
		end_children "$child"
		kill -TERM "$child" 2>/dev/null
	done
}
trap 'trap "" INT TERM HUP; end_children $$; wait; exit 130' INT TERM HUP
export WIRERATE_SKIPS=$work/skips
: >"$WIRERATE_SKIPS"
: >"$work/times"
TIMEFORMAT='%R %U %S'

# stage NAME COMMAND...: runs it with its output in $work/NAME, and notes its seconds and result. A shell
# that starts us in the background lets us inherit an ignored Ctrl-C, which is what some tests send.
stage() {
	local name=$1 result=0
	shift
	{ time env --default-signal=INT,QUIT,HUP,TERM "$@" >"$work/$name" 2>&1; } 2>"$work/$name.time" || result=$?
	echo "$name $(tail -n 1 "$work/$name.time") $result" >>"$work/times"
	echo "test: $name ended with $result after $(cut -d ' ' -f 1 "$work/$name.time") s"
	# At once, too: whoever ends a run that takes too long sees what failed until then.
	[ "$result" -eq 0 ] || grep -E '^test .* FAILED$|^ .* FAILED ' "$work/$name"
}

# The program, that of the virtual machines, and the test programs: name, kind, folder of its package, and path
# of each.
build_all() {
	local build=(cargo test --profile ci --workspace --locked --no-run --message-format=json-render-diagnostics)
	"${build[@]}" "$@" >"$work/messages" || return
	# The other workspace has none of the targets that are named.
	(cd lab && "${build[@]}" ${1:+--lib} >>"$work/messages") || return
	jq --raw-output 'select(.executable != null and .profile.test)
		| [.target.name, .target.kind[0], (.manifest_path | rtrimstr("/Cargo.toml")), .executable] | @tsv' \
		"$work/messages" >"$work/programs"
}

# As cargo runs it: in the folder of its package.
mkdir "$work/failed"
cat >"$work/run-one" <<'END'
#!/usr/bin/env bash
IFS=$'\t' read -r name kind place path <<<"$1"
package=${place##*/}
cd "$place" || exit 1
output=$(CARGO_PKG_NAME=$package CARGO_MANIFEST_DIR=$PWD "$path" 2>&1)
result=$?
printf '     Running %s of %s\n%s\n' "$name" "$package" "$output"
[ "$result" -eq 0 ] && exit
printf 'error: test failed: %s of %s\n' "$name" "$package"
# Each failed test on a line; none if the program itself broke off.
sed -n 's/^test \(.*[^ ]\) *\.\.\. FAILED$/\1/p' <<<"$output" >"$work/failed/$package.$kind.$name"
exit "$result"
END
chmod +x "$work/run-one"

run_programs() {
	grep --invert-match --perl-regexp '^netns\ttest\t' "$work/programs" |
		tr '\n' '\0' | xargs -0 -n 1 -P "$(nproc)" "$work/run-one"
}
run_others() {
	local result=0
	run_programs || result=1
	cargo test --profile ci --workspace --locked --doc || result=1
	(cd lab && cargo test --profile ci --workspace --locked --doc) || result=1
	return "$result"
}
# Each failed test by itself: on a busy machine one may not get its share of time. One that fails once in a
# while without other tests beside it has a fault, so it has to pass three times. More than a few failures
# have another reason.
passes() {
	(cd "$1" && CARGO_PKG_NAME=${1##*/} CARGO_MANIFEST_DIR=$1 "$2" --exact "$3" </dev/null) |
		tee --append /dev/stderr | grep --quiet '^test result: ok. 1 passed'
}
repeat_failed() {
	local row name kind place package path test kernel result=0
	if [ "$(cat "$work"/failed/* 2>/dev/null | wc --lines)" -gt 12 ]; then
		echo "repeat: more than 12 tests failed, so none is repeated"
		return 1
	fi
	while IFS=$'\t' read -r name kind place path; do
		package=${place##*/}
		row=$work/failed/$package.$kind.$name
		[ -e "$row" ] || continue
		[ -s "$row" ] || result=1
		while read -r test; do
			if passes "$place" "$path" "$test" && passes "$place" "$path" "$test" && passes "$place" "$path" "$test"; then
				echo "repeated: $test of $package failed beside the others, and passed three times by itself"
			else
				echo "repeated: $test of $package failed again"
				result=1
			fi
		done <"$row"
	done <"$work/programs"
	# A machine that ended without a row of a failed case broke off.
	awk '$3 == "FAILED" { print $1, $2 }' "$work/machines" >"$work/cases"
	[ -s "$work/cases" ] || awk '$1 == "machines" { exit $5 != 0 }' "$work/times" || result=1
	if [ "$(wc --lines <"$work/cases")" -gt 6 ]; then
		echo "repeat: more than 6 cases of machines failed, so none is repeated"
		return 1
	fi
	while read -r kernel test; do
		if "$folder/wirerate-vm" --kernel "$kernel" --only "$test" </dev/null; then
			echo "repeated: $test of $kernel failed beside the others, and passed by itself"
		else
			echo "repeated: $test of $kernel failed again"
			result=1
		fi
	done <"$work/cases"
	return "$result"
}
export -f run_programs run_others build_all repeat_failed passes
export work folder

# Each in the background: bash handles a signal at once while it waits, and else when the stage has ended.
stage build bash -c 'build_all "$@"' build_all "$@" &
wait
if [ $# -gt 0 ]; then
	if [ -s "$work/programs" ]; then
		stage others bash -c run_programs &
		wait
	fi
elif [ -s "$work/programs" ]; then
	# The machines and the namespaces both measure time, and took longer side by side than one after the other.
	# The others take what time the machines leave.
	stage machines "$folder/wirerate-vm" &
	stage others nice bash -c run_others &
	wait
	stage namespaces "$work/run-one" "$(grep --perl-regexp '^netns\ttest\t' "$work/programs")" &
	wait
	if ! awk '$5 != 0 { exit 1 }' "$work/times"; then
		stage repeat bash -c repeat_failed &
		wait
	fi
fi
if [ $# -eq 0 ] || ! awk '$5 != 0 { exit 1 }' "$work/times"; then
	cat "$work"/{build,others,namespaces,machines,repeat} 2>/dev/null
fi

# One line for each lane: tests that passed, seconds, and seconds of CPU time of all processes.
awk -v work="$work" '
	BEGIN { printf "%-12s %6s %8s %8s\n", "stage", "tests", "seconds", "CPU" }
	{
		tests = 0
		while ($1 != "repeat" && (getline line < (work "/" $1)) > 0) {
			if (match(line, /[0-9]+ passed/)) tests += substr(line, RSTART)
			else if ($1 == "machines" && line ~ / passed /) tests++
		}
		total += tests
		cpu += $3 + $4
		printf "%-12s %6s %8.0f %8.0f\n", $1, tests, $2, $3 + $4
	}
	END { printf "%-12s %6s %8s %8.0f\n", "all", total, "", cpu }
' "$work/times"
echo "tests skipped: $(wc --lines <"$WIRERATE_SKIPS")"
sort "$WIRERATE_SKIPS"
# The name of a failed test, and the first line of what it printed.
cat "$work"/{build,others,namespaces} 2>/dev/null | awk '
	/^---- .* ----$/ { name = $2; next }
	name && NF && !/ panicked at / { said[name] = $0; name = "" }
	/^test .* \.\.\. FAILED$/ { failed[$2] }
	/^error: (could not compile|test failed|doctest failed)/ { failed[$0] }
	END { for (test in failed) print "failed: " test (test in said ? ": " said[test] : "") }
' | sort
# A case of a virtual machine has a row first, and its reason later.
awk '
	$3 == "FAILED" { failed[$1 " " $2 ":"] }
	($1 " " $2) in failed { print "failed: virtual machine " $0 }
' "$work/machines" 2>/dev/null
grep '^repeat' "$work/repeat" 2>/dev/null
grep --no-filename '^to repeat it: ' "$work"/{others,namespaces} 2>/dev/null | sort --unique
# All stages, and each good, or made good by the repetition. Documentation tests are not repeated.
awk -v wanted="$([ $# -eq 0 ] && echo 4 || echo 2)" \
	-v doctests="$(grep --count '^error: doctest failed' "$work/others" 2>/dev/null)" '
	{ stages++; if ($1 == "repeat") repeated = $5 == 0; else if ($5 != 0) { failed++; if ($1 == "build") broken = 1 } }
	END { exit !(stages >= wanted && !broken && doctests == 0 && (failed == 0 || repeated)) }
' "$work/times"
