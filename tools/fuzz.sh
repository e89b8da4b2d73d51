#!/usr/bin/env bash
# Runs all fuzzers with random seeds. The last line of a failed run is the command that repeats its round.
#
#   tools/fuzz.sh          WIRERATE_FUZZ_SECONDS is the time of all together, by default an hour
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

output=$(mktemp) || exit 1
trap 'rm -f -- "$output"' EXIT
# Each fuzzer is a call of `fuzz!` with the name of its test.
mapfile -t names < <(git grep --no-line-number -h --only-matching 'fuzz!("[a-z0-9_]*"' -- '*.rs' | cut -d '"' -f 2 | sort --unique)
mapfile -t programs < <(git grep --files-with-matches 'testkit::fuzz!(' -- '*/tests/*.rs' |
	sed 's|^[a-z]*/tests/||; s|/main.rs$||; s|\.rs$||' | sort --unique | sed 's/^/--test\n/')
processors=$(nproc)
export WIRERATE_FUZZ_RANDOM=1
export WIRERATE_FUZZ_SECONDS=$((${WIRERATE_FUZZ_SECONDS:-3600} * processors / ${#names[@]}))
echo "fuzz: ${#names[@]} fuzzers, $WIRERATE_FUZZ_SECONDS s each, $processors at a time"
status=0
cargo test --workspace --locked --no-run --lib "${programs[@]}" || exit 1
# One process for each fuzzer, so that all processors have work until the end.
printf '%s\0' "${names[@]}" | xargs -0 -n 1 -P "$processors" \
	cargo test --quiet --workspace --locked --no-fail-fast --lib "${programs[@]}" -- --nocapture 2>&1 | tee "$output" || status=1
grep '^to repeat it: ' "$output" | sort --unique
exit "$status"
