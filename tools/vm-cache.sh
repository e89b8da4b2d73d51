#!/usr/bin/env bash
# Fetches what the virtual machines of `make vm` and of the tests are made of: kernels of several Debian
# releases with their modules, and a QEMU that knows newer network cards. Unpacked into a cache outside the
# tree, by an apt configuration of its own: nothing on this machine is installed or upgraded by it.
#
#   tools/vm-cache.sh [DIR]         default /var/cache/wirerate/vm
#
# What is there stays; remove the folder of a kernel to fetch the newest of its suite.
set -euo pipefail

cache=${1:-${WIRERATE_VM_CACHE:-/var/cache/wirerate/vm}}

# A name, and the suite whose kernel it is.
kernels() {
	cat <<-END
		6.1     bookworm
		6.12    bookworm-backports
		newest  trixie-backports
	END
}

private_apt() {
	APT_CONFIG="$work/apt.conf" "$@" </dev/null
}

# The mirror is the one that this machine uses itself.
mirror() {
	# shellcheck disable=SC2016 # these are apt-get's
	apt-get indextargets --format '$(SITE) $(SUITE) $(LABEL)' 'Created-By: Packages' |
		sed -n 's/^\([^ ]*\) .* *Debian$/\1/p' | head -n 1
}

prepare_apt() {
	local suite site
	site=$(mirror)
	[ -n "$site" ] || { apt-get -qq update && site=$(mirror); }
	if [ -z "$site" ]; then
		echo "wirerate: apt-get here knows no mirror of Debian" >&2
		echo "  try: a machine with Debian 12, or put kernels into $cache yourself (tools/vm-cache.sh says how they lie)" >&2
		exit 3
	fi
	mkdir -p "$work"/{etc/preferences.d,etc/apt.conf.d,etc/sources.list.d,lib/lists/partial,cache/archives/partial}
	: >"$work/status"
	for suite in bookworm bookworm-backports trixie trixie-backports; do
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main"
	done >"$work/etc/sources.list"
	cat >"$work/apt.conf" <<-END
		Dir::State "$work/lib";
		Dir::State::status "$work/status";
		Dir::Cache "$work/cache";
		Dir::Etc "$work/etc";
		APT::Sandbox::User "root";
		Acquire::Languages "none";
		Acquire::Retries "3";
	END
	private_apt apt-get -qq update
}

# Unpacks packages of a suite into a folder.
unpack() {
	local suite=$1 into=$2 package
	shift 2
	mkdir -p "$work/deb"
	for package in "$@"; do
		(cd "$work/deb" && private_apt apt-get -qq download "$package/$suite")
	done
	for package in "$work"/deb/*.deb; do
		dpkg-deb -x "$package" "$into"
	done
	rm -r -- "$work/deb"
}

# What linux-image-amd64 stands for there: one package in older releases, three in newer ones.
kernel_packages() {
	local suite=$1 image
	image=$(depends_of "linux-image-amd64/$suite" | head -n 1)
	{
		depends_of "linux-image-amd64/$suite"
		depends_of "$image/$suite"
	} | sort -u
}

depends_of() {
	private_apt apt-cache show --no-all-versions "$1" 2>/dev/null | sed -n 's/^Depends: //p' | tr ',' '\n' |
		sed -n 's/^ *\(linux-\(image\|binary\|modules\)-[0-9][^ ]*\).*/\1/p'
}

fetch_kernel() {
	local name=$1 suite=$2 new=$work/new
	local -a packages
	mapfile -t packages < <(kernel_packages "$suite")
	echo "fetching a kernel for virtual machines: ${packages[*]}" >&2
	unpack "$suite" "$new" "${packages[@]}"
	# Older and newer packages lay it out differently; here it is one way.
	mkdir -p "$work/laid"
	mv -- "$(find "$new" -name 'vmlinuz*' -type f)" "$work/laid/vmlinuz"
	mv -- "$(find "$new" -type d -path '*/lib/modules/*' -name kernel -prune)" "$work/laid/modules"
	rm -r -- "$new"
	mv --no-target-directory -- "$work/laid" "$cache/$name"
}

fetch_qemu() {
	echo "fetching QEMU for virtual machines" >&2
	unpack bookworm-backports "$work/qemu" qemu-system-x86 qemu-system-common qemu-system-data
	mv --no-target-directory -- "$work/qemu" "$cache/qemu"
}

# What is not there. Half a kernel never is: each comes into its place whole.
missing() {
	local name suite
	kernels | while read -r name suite; do
		[ -e "$cache/$name" ] || echo "$name $suite"
	done
	[ -e "$cache/qemu" ] || echo qemu
}

fetch_missing() {
	local wanted name suite
	wanted=$(missing)
	work=$(mktemp -d "$cache/.new.XXXXXX")
	trap 'rm -rf -- "$work"' EXIT
	prepare_apt
	while read -r name suite; do
		if [ "$name" = qemu ]; then fetch_qemu; else fetch_kernel "$name" "$suite"; fi
	done <<<"$wanted"
}

if [ "${2:-}" = once ]; then
	fetch_missing
	exit
fi
[ -n "$(missing)" ] || exit 0
if ! { mkdir -p "$cache" && : >>"$cache/.lock"; } 2>/dev/null; then
	echo "wirerate: $cache cannot be written" >&2
	echo "  try: as root, tools/vm-cache.sh, or another place in WIRERATE_VM_CACHE" >&2
	exit 3
fi
# Another run may be fetching the same; then there is nothing left to do.
exec 9>>"$cache/.lock"
flock 9
# Nobody is at work now, so these are from runs that were killed.
rm -rf -- "$cache"/.new.*
# A mirror that is being updated fails for a moment, so once more before giving up.
if [ -n "$(missing)" ] && ! "$0" "$cache" once && ! { sleep 5 && "$0" "$cache" once; }; then
	echo "wirerate: apt-get could not fetch what virtual machines are made of: $(missing | cut -d ' ' -f 1 | tr '\n' ' ')" >&2
	echo "  try: apt-get update, then tools/vm-cache.sh, and read what it says" >&2
	exit 3
fi
