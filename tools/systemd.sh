#!/usr/bin/env bash
# Makes the Debian package, and tests its services under systemd in virtual machines.
#
#   tools/systemd.sh [ARGUMENTS of wirerate-vm]
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
WIRERATE_CPUS='' tools/package.sh "$work" >/dev/null
program=$(tools/release.sh "$(uname -m)-unknown-linux-gnu" vm)
"$program" --deb "$work"/wirerate_*.deb "$@"
