#!/usr/bin/env bash
# Builds the programs of the commit twice, in two folders whose names differ in length, and compares.
# The libraries of static programs are built twice, too.
#
#   tools/reproducible.sh [TARGET...]       by default with the libraries of this system, and static
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- "$(uname -m)-unknown-linux-gnu" "$(uname -m)-unknown-linux-musl"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The builds must be in folders of their own.
unset CARGO_TARGET_DIR
for folder in one another-folder; do
	git clone --quiet . "$work/$folder"
done
for target in "$@"; do
	program=target/$target/dist/wirerate
	for folder in one another-folder; do
		(cd "$work/$folder" && WIRERATE_MUSL_CACHE=$work/$folder/target/musl tools/release.sh "$target" >/dev/null)
	done
	cmp "$work/one/$program" "$work/another-folder/$program"
	if grep --quiet --text --fixed-strings "$work" "$work/one/$program"; then
		echo "reproducible: the program for $target names the folder of its build" >&2
		exit 1
	fi
	echo "reproducible: $target: $(sha256sum <"$work/one/$program" | cut -d ' ' -f 1) in both folders"
done
