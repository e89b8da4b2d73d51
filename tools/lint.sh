#!/usr/bin/env bash
# Checks the code without running it. All checks run; any complaint fails. The profile is that of `make test`,
# which then finds the programs that cargo runs during a build already built.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

failed=()
groups=""
skipped=()

check() {
	local name=$1 start=$SECONDS
	shift
	echo "lint: $name"
	"$@" || failed+=("$name")
	echo "lint: $name took $((SECONDS - start)) s"
}

# Files of a kind, tracked or new, without those that git ignores.
files() {
	git ls-files --cached --others --exclude-standard -- "$@"
}

check_c() {
	mapfile -t sources < <(files '*.c' '*.h')
	[ "${#sources[@]}" -eq 0 ] || clang-format --dry-run -Werror "${sources[@]}"
}

check_shell() {
	mapfile -t scripts < <(files '*.sh' .ci/run)
	shellcheck --external-sources "${scripts[@]}"
}

check_prose() {
	mapfile -t sources < <(files '*.rs' '*.c' '*.h' '*.md')
	tools/prose.pl "${sources[@]}"
}

# cargo-deny fetches the RustSec database. Without a network, an earlier copy is used. Without a
# copy, the check is skipped, and the last lines of this script report it.
check_advisories() {
	local why copy
	if why=$(cargo deny --log-level error fetch db 2>&1); then
		both cargo deny --log-level error --locked check advisories
		return
	fi
	copy=$(find "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs" -maxdepth 1 -type d -name 'advisory-db-*' 2>/dev/null | head -n 1)
	if [ -n "$copy" ]; then
		skipped+=("advisories newer than the copy of $(git -C "$copy" log -1 --format=%cs): $(tail -n 1 <<<"$why")")
		both cargo deny --log-level error --locked check --disable-fetch advisories
		return
	fi
	skipped+=("advisories: $(grep . <<<"$why" | tail -n 1)")
}

check_docs() {
	RUSTDOCFLAGS="--deny warnings" both cargo doc --quiet --profile ci --workspace --no-deps --locked \
		--document-private-items
}

# A command of cargo for the product, and for the workspace of what runs it.
both() {
	"$@" && (cd lab && "$@")
}

# The program with one group of commands, or with none, which is the core: what a build leaves out is not
# missed by the rest.
clippy_of_group() {
	cargo clippy --quiet --profile ci --locked --package={program,wirerate} "${@:2}" --no-default-features \
		--features "$1" -- \
		--deny warnings
}

check_core() {
	clippy_of_group ""
}

# The crates that call the C library, for the one of the static packages: some of its types differ. Where its headers
# cannot be had, the check is skipped, and the last lines of this script report it.
check_musl() {
	local target why
	target="$(uname -m)-unknown-linux-musl"
	if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
		skipped+=("musl: Rust has no standard library for $target here")
	elif ! why=$(tools/musl.sh "$(uname -m)" 2>&1 >/dev/null); then
		skipped+=("musl: $(grep . <<<"$why" | tail -n 1)")
	else
		(
			# shellcheck source=tools/target.sh
			. tools/target.sh
			set_target "$target"
			cargo check --quiet --profile ci --locked --package={capture,ctlfs,engine,host,program} --target "$target"
		)
	fi
}

# Each group alone. The crates of all groups are selected beside it, so that libraries of other projects have the
# same features each time, and are checked once and not seven times: a feature of theirs that one group lacks is not
# noticed here, but in the core. Groups next to each other have most in common.
check_groups() {
	local group
	for group in export fleet otg metrics live mgcap report; do
		clippy_of_group "wirerate/$group" --package={columns,fleet,hub,live,otg,search,server} || return 1
	done
}

# Cargo waits for another cargo in the same folder, so the groups have a copy of it, and are checked meanwhile. Cargo
# writes its records in place, so they are copied. The files that it and the compiler replace are links: there can be
# gigabytes of them.
start_groups() {
	local folder=${CARGO_TARGET_DIR:-target}
	rm -rf "$folder/groups"
	mkdir -p "$folder/groups/ci" && cp -a "$folder/ci/.fingerprint" "$folder/groups/ci/" &&
		cp -al "$folder/ci"/{build,deps} "$folder/groups/ci/" || return 1
	CARGO_TARGET_DIR=$folder/groups check_groups &
	groups=$!
}

end_groups() {
	local result=0
	wait "$groups" || result=1
	rm -rf "${CARGO_TARGET_DIR:-target}/groups"
	return "$result"
}

check "rustfmt" both cargo fmt --all --check
check "clang-format" check_c
check "shellcheck" check_shell
check "prose" check_prose
check "clippy" both cargo clippy --quiet --profile ci --workspace --all-targets --locked -- --deny warnings
check "copy for the groups" start_groups
check "core" check_core
check "musl" check_musl
check "rustdoc" check_docs
check "groups" end_groups
check "cargo-deny" both cargo deny --log-level error --locked check bans licenses sources
check "advisories" check_advisories

for what in "${skipped[@]}"; do
	echo "lint: NOT CHECKED: $what" >&2
done

if [ "${#failed[@]}" -gt 0 ]; then
	echo "lint: complaints from ${failed[*]}" >&2
	exit 1
fi
