#!/usr/bin/env bash
# Builds the Debian package twice, checks it with lintian, and installs, uses and purges it in a
# clean chroot of this machine's Debian release.
#
#   tools/package-test.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "package-test: $*" >&2
	exit 1
}

program=$(realpath "${1:?"which program: target/release/wirerate"}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

package=$(tools/package.sh "$program" "$work/one")
cmp "$package" "$(tools/package.sh "$program" "$work/two")" || fail "two builds differ"
(cd "$work/one" && sha256sum --quiet --check SHA256SUMS) || fail "the checksum is wrong"
complaints=$(lintian --allow-root --fail-on none "$package")
[ -z "$complaints" ] || fail "lintian: $complaints"

# The sources of this machine, so that its mirror is used.
shopt -s nullglob
lists=(/etc/apt/sources.lis[t] /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources)
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
echo "package-test: making a chroot of $release (a minute or more)" >&2
cat "${lists[@]}" | mmdebstrap --quiet --variant=minbase --mode=root "$release" "$root" - ||
	fail "mmdebstrap could not make the chroot"

inside() {
	chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
}

files() {
	(cd "$root" && find bin boot etc home lib opt root run sbin srv usr -not -type d | sort)
}

# The libraries come first, so that what is left later was in the package.
inside apt-get --quiet=2 update >/dev/null
cp "$package" "$root/tmp/wirerate.deb"
mapfile -t libraries < <(dpkg-deb --field "$package" Depends | tr ',' '\n' | sed 's/(.*//; s/ //g')
inside apt-get --quiet=2 install --yes --no-install-recommends "${libraries[@]}" >/dev/null
before=$(files)
inside apt-get --quiet=2 install --yes --no-install-recommends /tmp/wirerate.deb >/dev/null

[ "$(inside wirerate --version | head -n 1)" = "wirerate $(dpkg-deb --field "$package" Version)" ] ||
	fail "the program does not print its version"
inside wirerate send lo --dst 198.18.0.2 --dry-run 2 2>/dev/null | grep -q '^frame 1: 60 bytes' ||
	fail "the program shows no frame"
for name in mgdump mgcap mgcap_hwtstamp_config; do
	inside "$name" --help >/dev/null || fail "$name does not run"
done
for file in usr/share/man/man1/wirerate-send.1.gz usr/share/bash-completion/completions/wirerate \
	usr/share/zsh/vendor-completions/_wirerate usr/share/fish/vendor_completions.d/wirerate.fish \
	lib/systemd/system/wirerate.service lib/systemd/system/wirerate-otg.service usr/share/doc/wirerate/docs/metrics.md; do
	[ -s "$root/$file" ] || fail "/$file is missing"
done
for service in wirerate wirerate-otg; do
	[ ! -e "$root/etc/systemd/system/multi-user.target.wants/$service.service" ] || fail "$service is enabled"
done
inside dpkg --verify wirerate || fail "installed files differ from the package"

inside apt-get --quiet=2 purge --yes wirerate >/dev/null
left=$(diff <(echo "$before") <(files) || true)
[ -z "$left" ] || fail "purging left or removed: $left"
echo "package-test: installed, used and purged $(basename "$package")"
