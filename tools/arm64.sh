#!/usr/bin/env bash
# Builds wirerate for arm64 and tests it: the tests of the crates that need no kernel under QEMU's
# emulation of a process, and the program itself on Debian's kernel in an emulated machine.
#
#   tools/arm64.sh [ARGUMENTS of wirerate-vm]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/target.sh
. tools/target.sh

target=aarch64-unknown-linux-musl
program=$(tools/release.sh "$target")
init=$(tools/release.sh "$target" vm)
(
	set_target "$target"
	export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64-static
	cargo test --quiet --locked --lib --target "$target" --package packet --package pcapng --package command --package filter
)
host=$(tools/release.sh "$(uname -m)-unknown-linux-musl" vm)
"$host" --kernel arm64 --wirerate "$program" --init "$init" "$@"
