#!/usr/bin/env bash
# Builds a program that the packages or their tests contain, with the profile `dist`, and prints its path.
#
#   tools/release.sh x86_64-unknown-linux-gnu       with the libraries of this system
#   tools/release.sh x86_64-unknown-linux-musl      linked statically
#   tools/release.sh aarch64-unknown-linux-musl     the same for arm64
#   tools/release.sh TARGET vm                      `wirerate-vm` instead of `wirerate`
#   tools/release.sh TARGET bench                   `wirerate-bench`
#   tools/release.sh TARGET core                    the core alone (make core), as `wirerate-core`
#
# The program is in the folder of the target below target/. Each target has its own, so `make build`
# and this script do not replace each other's files.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/target.sh
. tools/target.sh

target=${1:?"which target: x86_64-unknown-linux-gnu, x86_64-unknown-linux-musl or aarch64-unknown-linux-musl"}
package=${2:-wirerate}
set_target "$target"
# No source has it, and crates with C would be built again for each commit.
unset SOURCE_DATE_EPOCH
case "$package" in
core) build=(--package wirerate --no-default-features) ;;
*) build=(--package "$package") ;;
esac
case "$package" in
bench | vm) cd lab ;;
esac
cargo build --quiet --profile dist --locked "${build[@]}" --target "$target" >&2
case "$package" in
core)
	# The next build of all has the name of the program.
	cp "$output/$target/dist/wirerate" "$output/$target/dist/wirerate-core"
	echo "$output/$target/dist/wirerate-core"
	;;
bench | vm) echo "$output/$target/dist/wirerate-$package" ;;
*) echo "$output/$target/dist/wirerate" ;;
esac
