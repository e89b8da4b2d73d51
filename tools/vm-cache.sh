#!/usr/bin/env bash
# Fetches what the virtual machines of `make vm` and of the tests are made of: kernels of several Debian
# releases with their modules, and a QEMU that knows newer network cards. Unpacked into a cache outside the
# tree, by an apt configuration of its own: nothing on this machine is installed or upgraded by it.
#
#   tools/vm-cache.sh [--arm64 | --systemd] [DIR]      default /var/cache/wirerate/vm
#
# With --arm64, a kernel and the programs of a machine with an arm64 processor. With --systemd, also
# the root of a Debian system of this machine's release that systemd starts.
#
# What is there stays; remove the folder of a kernel to fetch the newest of its suite.
set -euo pipefail

architecture=amd64
options=()
if [ "${1:-}" = --arm64 ]; then
	architecture=arm64
	options=(--arm64)
	shift
elif [ "${1:-}" = --systemd ]; then
	options=(--systemd)
	shift
fi
cache=${1:-${WIRERATE_VM_CACHE:-/var/cache/wirerate/vm}}

# A name, and the suite whose kernel it is.
kernels() {
	if [ "$architecture" = arm64 ]; then
		echo arm64 bookworm-backports
		return
	fi
	cat <<-END
		6.1     bookworm
		6.12    bookworm-backports
		newest  trixie-backports
	END
}

# shellcheck source=tools/private-apt.sh
. "$(dirname "$0")/private-apt.sh"

# What cases call in an arm64 machine, and the libraries of these programs.
ARM64_PROGRAMS=(busybox-static dash ethtool iproute2 libbpf1 libbsd0 libc6 libcap2 libcom-err2 libdb5.3 libdbus-1-3
	libelf1 libgcrypt20 libgpg-error0 libgssapi-krb5-2 libk5crypto3 libkeyutils1 libkrb5-3 libkrb5support0 liblz4-1
	liblzma5 libmd0 libmnl0 libpcap0.8 libpcre2-8-0 libselinux1 libssl3 libsystemd0 libtirpc3 libxtables12 libzstd1
	tcpdump zlib1g)

# What linux-image-amd64 stands for there: one package in older releases, three in newer ones.
kernel_packages() {
	local suite=$1 image
	image=$(depends_of "linux-image-$architecture/$suite" | head -n 1)
	{
		depends_of "linux-image-$architecture/$suite"
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

fetch_arm64_programs() {
	echo "fetching programs for an arm64 machine" >&2
	unpack bookworm "$work/programs" "${ARM64_PROGRAMS[@]}"
	mv --no-target-directory -- "$work/programs" "$cache/arm64-programs"
}

# What the Debian package needs to be installed and used there.
SYSTEM_PROGRAMS=ca-certificates,curl,ethtool,iproute2,libelf1,procps,systemd,zlib1g

make_system() {
	local suite
	# shellcheck source=/dev/null
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	echo "making a Debian system for virtual machines (some minutes, once)" >&2
	# shellcheck disable=SC2016 # mmdebstrap expands it
	mmdebstrap --quiet --variant=minbase --mode=root --include="$SYSTEM_PROGRAMS" \
		--customize-hook='rm -rf "$1"/usr/share/doc "$1"/usr/share/locale "$1"/usr/share/man "$1"/var/cache/apt "$1"/var/lib/apt/lists' \
		"$suite" "$work/system" "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $suite main" </dev/null
	mv --no-target-directory -- "$work/system" "$cache/systemd-root"
}

# What is not there. Half a kernel never is: each comes into its place whole.
missing() {
	local name suite
	kernels | while read -r name suite; do
		[ -e "$cache/$name" ] || echo "$name $suite"
	done
	# QEMU for arm64 is the one of this machine's distribution.
	if [ "$architecture" = arm64 ]; then
		[ -e "$cache/arm64-programs" ] || echo arm64-programs
	elif [ ! -e "$cache/qemu" ]; then
		echo qemu
	fi
	[ "${options[*]-}" != --systemd ] || [ -e "$cache/systemd-root" ] || echo systemd-root
}

fetch_missing() {
	local wanted name suite
	wanted=$(missing)
	work=$(mktemp -d "$cache/.new.XXXXXX")
	trap 'rm -rf -- "$work"' EXIT
	prepare_apt "$architecture" bookworm bookworm-backports trixie trixie-backports
	while read -r name suite; do
		case "$name" in
		qemu) fetch_qemu ;;
		arm64-programs) fetch_arm64_programs ;;
		systemd-root) make_system ;;
		*) fetch_kernel "$name" "$suite" ;;
		esac
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
fetch() {
	"$0" "${options[@]}" "$cache" once
}
# Another run may be fetching the same; then there is nothing left to do.
exec 9>>"$cache/.lock"
flock 9
# No other run holds the lock, so these are from runs that were killed.
rm -rf -- "$cache"/.new.*
# A mirror that is being updated fails for a moment, so once more before giving up.
if [ -n "$(missing)" ] && ! fetch && ! { sleep 5 && fetch; }; then
	echo "wirerate: apt-get could not fetch what virtual machines are made of: $(missing | cut -d ' ' -f 1 | tr '\n' ' ')" >&2
	echo "  try: apt-get update, then tools/vm-cache.sh, and read what it says" >&2
	exit 3
fi
