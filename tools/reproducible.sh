#!/usr/bin/env bash
# Builds the program of the commit twice, in two folders whose names differ in length, and compares.
#
#   tools/reproducible.sh [TARGET]          by default with the libraries of this system
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:-$(uname -m)-unknown-linux-gnu}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The builds must be in folders of their own.
unset CARGO_TARGET_DIR
for folder in one another-folder; do
	git clone --quiet . "$work/$folder"
	(cd "$work/$folder" && tools/release.sh "$target")
done
program=target/$target/release/wirerate
cmp "$work/one/$program" "$work/another-folder/$program"
if grep --quiet --text --fixed-strings "$work" "$work/one/$program"; then
	echo "reproducible: the program names the folder of its build" >&2
	exit 1
fi
echo "reproducible: $(sha256sum <"$work/one/$program" | cut -d ' ' -f 1) in both folders"
