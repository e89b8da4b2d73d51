#!/usr/bin/env bash
# Everything that can be said about the code without running it. All checks run; any complaint fails.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

failed=()

check() {
	local name=$1
	shift
	echo "lint: $name"
	"$@" || failed+=("$name")
}

# The files of one kind that git knows, tracked or new; what is ignored (target/) is not ours.
files() {
	git ls-files --cached --others --exclude-standard -- "$@"
}

check_c() {
	mapfile -t sources < <(files '*.c' '*.h')
	[ "${#sources[@]}" -eq 0 ] || clang-format --dry-run -Werror "${sources[@]}"
}

check_shell() {
	mapfile -t scripts < <(files '*.sh' .ci/run)
	shellcheck "${scripts[@]}"
}

check_docs() {
	RUSTDOCFLAGS="--deny warnings" cargo doc --quiet --workspace --no-deps --locked
}

check "rustfmt" cargo fmt --all --check
check "clang-format" check_c
check "shellcheck" check_shell
check "clippy" cargo clippy --quiet --workspace --all-targets --locked -- --deny warnings
check "rustdoc" check_docs
check "cargo-deny" cargo deny --log-level error --locked check bans licenses sources

if [ "${#failed[@]}" -gt 0 ]; then
	echo "lint: complaints from ${failed[*]}" >&2
	exit 1
fi
