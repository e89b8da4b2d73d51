#!/usr/bin/env bash
# Makes the packages twice, checks them with lintian and rpmlint, and installs, uses and removes them:
# the Debian package in a clean chroot of this machine's release, the static ones in empty folders.
#
#   tools/package-test.sh
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "package-test: $*" >&2
	exit 1
}

passed() {
	echo "package-test: $*"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
read -ra cpus <<<"${WIRERATE_CPUS:-x86_64 aarch64}"

# isolated ROOT COMMAND...: in a root, with network, mounts and processes of its own, which end with
# the command.
isolated() {
	# shellcheck disable=SC2016 # the inner shell expands them
	unshare --mount --net --pid --fork --kill-child sh -ec '
		root=$1; shift
		mkdir -p "$root/proc" "$root/sys" "$root/dev"
		# ip changes how mounts spread at /, which must be a mount for that.
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount -t sysfs sysfs "$root/sys"
		mount --rbind /dev "$root/dev"
		exec chroot "$root" "$@"' sh "$@"
}

check_twice() {
	tools/package.sh "$work/one" >/dev/null
	tools/package.sh "$work/two" >/dev/null
	diff --recursive --brief "$work/one" "$work/two" || fail "two packagings differ"
	(cd "$work/one" && sha256sum --quiet --check SHA256SUMS) || fail "a checksum is wrong"
	[ "$(wc --lines <"$work/one/SHA256SUMS")" = "$(find "$work/one" -name 'wirerate*' | wc --lines)" ] ||
		fail "not every package has a checksum"
	passed "two packagings have the same bytes: $(cd "$work/one" && echo wirerate*)"
}

check_static() {
	local cpu program root=$work/empty run said
	for cpu in "${cpus[@]}"; do
		mkdir -p "$work/tar-$cpu"
		tar --extract --file="$work/one/wirerate-$version-linux-$cpu.tar.gz" --strip-components=1 --directory="$work/tar-$cpu"
		program=$work/tar-$cpu/bin/wirerate
		! readelf --dynamic "$program" | grep NEEDED || fail "the static program for $cpu needs libraries"
		run=(env)
		[ "$cpu" = "$(uname -m)" ] || run=("qemu-$cpu-static")
		[ "$("${run[@]}" "$program" --version | head -n 1)" = "wirerate $version" ] || fail "the program for $cpu does not run"
		said=$("${run[@]}" "$program" send lo --dst 198.18.0.2 --dry-run 2 2>&1) || fail "the program for $cpu fails: $said"
		grep --quiet '^frame 1: 60 bytes' <<<"$said" || fail "the program for $cpu shows no frame: $said"
	done
	install -D "$work/tar-$(uname -m)/bin/wirerate" "$root/bin/wirerate"
	mkdir -p "$root"/{tmp,run}
	isolated "$root" /bin/wirerate demo --count 20k >"$work/said" 2>&1 || fail "the demo in an empty root: $(cat "$work/said")"
	# There is no libpcap and no tcpdump, which the error names; with tcpdump, filters work.
	if isolated "$root" /bin/wirerate count lo --duration 1ms udp port 9 >"$work/said" 2>&1; then
		fail "a filter works without a compiler of filters"
	fi
	grep --quiet 'install tcpdump' "$work/said" || fail "the error does not name tcpdump: $(cat "$work/said")"
	unshare --net "$root/bin/wirerate" sink lo --duration 1ms udp port 9 >"$work/said" 2>&1 ||
		fail "a filter with tcpdump: $(cat "$work/said")"
	passed "the static program runs in an empty root, and filters with tcpdump"
}

check_rpm() {
	local root=$work/rpm-root package output complaints other
	package=$work/one/wirerate-$version-1.$(uname -m).rpm
	output=$(rpmlint --config packaging/rpmlint.toml "$package" 2>&1 || true)
	grep --quiet ' checked[;.]' <<<"$output" || fail "rpmlint checks nothing: $output"
	complaints=$(grep ': E: ' <<<"$output" || true)
	[ -z "$complaints" ] || fail "rpmlint: $complaints"
	# Its scripts need a shell, rmdir and /dev/null.
	install -D "$(command -v busybox)" "$root/bin/sh" && ln "$root/bin/sh" "$root/bin/rmdir"
	mkdir -p "$root/dev" && mknod --mode=666 "$root/dev/null" c 1 3
	rpm --root "$root" --nodeps --install "$package" || fail "the RPM does not install"
	rpm --root "$root" --nodeps --verify wirerate || fail "files of the RPM differ"
	isolated "$root" /usr/bin/wirerate --version >/dev/null || fail "the program of the RPM does not run"
	# What a capture leaves.
	mkdir -p "$root/run/wirerate/capture"
	rpm --root "$root" --nodeps --erase wirerate || fail "the RPM does not go"
	[ -z "$(find "$root/usr" -type f -o -type l)" ] || fail "the RPM leaves files"
	[ ! -e "$root/run/wirerate" ] || fail "erasing the RPM left /run/wirerate"
	for other in "$work"/one/*.rpm; do
		diff <(rpm --query --package --list "$package" 2>/dev/null) <(rpm --query --package --list "$other" 2>/dev/null) ||
			fail "$other has other files"
	done
	passed "the RPM was installed, used and erased"
}

check_image() {
	local cpu name said store=(--root "$work/store" --runroot "$work/runroot") architecture printed=$work/printed
	for cpu in "${cpus[@]}"; do
		architecture=amd64
		[ "$cpu" = x86_64 ] || architecture=arm64
		name=$(buildah "${store[@]}" from --quiet --arch "$architecture" \
			"oci-archive:$work/one/wirerate-$version-oci-$cpu.tar" 2>"$printed") ||
			fail "buildah does not read the image for $cpu: $(cat "$printed"; df --human-readable "$work")"
		said=$(buildah "${store[@]}" inspect --format '{{.OCIv1.Architecture}}' "$name" 2>"$printed") ||
			fail "buildah does not show the container \"$name\" for $cpu: $(cat "$printed")"
		[ "$said" = "$architecture" ] || fail "the image for $cpu has the architecture \"$said\": $(cat "$printed")"
		if [ "$cpu" = "$(uname -m)" ]; then
			# Warnings of buildah are no part of what the program prints.
			said=$(buildah "${store[@]}" run "$name" -- /usr/bin/wirerate --version 2>"$printed") ||
				fail "the image does not run, status $?: $said $(cat "$printed")"
			[ "$said" = "wirerate $version" ] || fail "the program of the image prints \"$said\": $(cat "$printed")"
		fi
		buildah "${store[@]}" rm "$name" >"$printed" 2>&1 || fail "buildah does not remove \"$name\": $(cat "$printed")"
	done
	passed "the images run"
}

check_units() {
	local root=$1 unit exposure complaints
	for unit in wirerate wirerate-otg wirerate-agent; do
		complaints=$(systemd-analyze --root="$root" --man=no verify "$root/lib/systemd/system/$unit.service" 2>&1) ||
			fail "systemd-analyze verify $unit: $complaints"
		exposure=$(systemd-analyze security --offline=true --no-pager "$root/lib/systemd/system/$unit.service" |
			sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\) .*/\1/p')
		awk -v exposure="$exposure" 'BEGIN { exit !(exposure > 0 && exposure <= 6.5) }' ||
			fail "the exposure of $unit is \"$exposure\" and must be at most 6.5"
		[ ! -e "$root/etc/systemd/system/multi-user.target.wants/$unit.service" ] || fail "$unit is enabled"
	done
	passed "the units are valid, confined and not enabled"
}

# Cgroups that systemd-nspawn leaves below that of this process, in either hierarchy.
remove_cgroups() {
	local controllers path root
	while IFS=: read -r _ controllers path; do
		case "$controllers" in
		name=systemd) root=/sys/fs/cgroup/systemd ;;
		"") root=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET) ;;
		*) continue ;;
		esac
		rmdir "$root$path"/payload/init.scope "$root$path"/payload "$root$path"/supervisor 2>/dev/null || true
	done </proc/self/cgroup
}

# systemd starts the services in a container. What it writes to its root is lost.
check_services() {
	local shared=$work/services ended=0
	mkdir "$shared"
	cp tools/package/services.sh "$shared"
	cat >"$shared/unit" <<-END
		[Unit]
		After=basic.target
		SuccessAction=exit
		FailureAction=exit
		[Service]
		Type=oneshot
		ExecStart=/bin/bash /srv/services.sh
		StandardOutput=file:/srv/said
		StandardError=inherit
	END
	timeout 120 systemd-nspawn --quiet --register=no --keep-unit --private-network --console=pipe \
		--capability=all --system-call-filter='bpf perf_event_open' --volatile=overlay \
		--bind=/dev/fuse --bind="$shared:/srv" --bind-ro="$shared/unit:/etc/systemd/system/package-test.service" \
		--directory="$1" --boot systemd.unit=package-test.service </dev/null >"$shared/console" 2>&1 || ended=$?
	remove_cgroups
	[ "$ended" = 0 ] || fail "the services, status $ended: $(tail --quiet --lines=30 "$shared/console" "$shared/said" 2>&1)"
	cat "$shared/said"
	passed "systemd started, used and stopped the services"
}

# A root of this machine's release, by its mirror, with what the tutorial needs.
make_root() {
	local release lists
	shopt -s nullglob
	lists=(/etc/apt/sources.lis[t] /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources)
	# shellcheck source=/dev/null
	release=$(. /etc/os-release && echo "$VERSION_CODENAME")
	echo "package-test: making a chroot of $release (some minutes)" >&2
	cat "${lists[@]}" | mmdebstrap --quiet --variant=minbase --mode=root \
		--include=iproute2,ethtool,fuse3,procps,systemd,tshark "$release" "$1" - || fail "mmdebstrap could not make the chroot"
}

# The package of the core: the program without groups of commands, which excludes the whole one.
check_core() {
	local package root=$work/core
	package=$(echo "$work"/one/wirerate-core_*.deb)
	[ "$(dpkg-deb --field "$package" Conflicts)" = wirerate ] || fail "wirerate-core does not conflict with wirerate"
	dpkg-deb --extract "$package" "$root"
	"$root/usr/bin/wirerate" --version | grep --quiet 'features none' || fail "wirerate-core has more than the core"
	[ ! -e "$root/usr/bin/mgdump" ] || fail "wirerate-core has mgdump"
}

check_deb() {
	local package root=$work/root complaints before left name file older=$work/older libraries
	package=$(echo "$work"/one/wirerate_*.deb)
	complaints=$(lintian --allow-root --fail-on none "$package")
	[ -z "$complaints" ] || fail "lintian: $complaints"
	make_root "$root"
	inside() {
		chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
	}
	files() {
		(cd "$root" && find bin boot etc home lib opt root run sbin srv usr -not -type d | sort)
	}
	cp "$package" "$root/tmp/wirerate.deb"
	cp tools/package/{tutorial,upgrade}.sh "$root/tmp"
	# The libraries come first, so that what is left later was in the package.
	inside apt-get --quiet=2 -o Dpkg::Use-Pty=0 update >/dev/null
	mapfile -t libraries < <(dpkg-deb --field "$package" Depends | tr ',' '\n' | sed 's/(.*//; s/ //g')
	inside apt-get --quiet=2 -o Dpkg::Use-Pty=0 install --yes --no-install-recommends "${libraries[@]}" >/dev/null
	before=$(files)

	inside apt-get --quiet=2 -o Dpkg::Use-Pty=0 install --yes --no-install-recommends /tmp/wirerate.deb >/dev/null
	[ "$(inside wirerate --version | head -n 1)" = "wirerate $version" ] || fail "the program does not print its version"
	for name in mgdump mgcap mgcap_hwtstamp_config; do
		inside "$name" --help >/dev/null || fail "$name does not run"
	done
	for file in usr/share/man/man1/wirerate-send.1.gz usr/share/bash-completion/completions/wirerate \
		usr/share/zsh/vendor-completions/_wirerate usr/share/fish/vendor_completions.d/wirerate.fish \
		usr/share/doc/wirerate/docs/watching.md; do
		[ -s "$root/$file" ] || fail "/$file is missing"
	done
	inside dpkg --verify wirerate || fail "installed files differ from the package"
	check_units "$root"
	check_services "$root"
	isolated "$root" bash /tmp/tutorial.sh /usr/share/doc/wirerate/docs/tutorial.md || fail "the tutorial"
	inside apt-get --quiet=2 -o Dpkg::Use-Pty=0 purge --yes wirerate >/dev/null
	left=$(diff <(echo "$before") <(files) || true)
	[ -z "$left" ] || fail "purging left or removed: $left"
	[ ! -e "$root/run/wirerate" ] || fail "purging left /run/wirerate"

	# The same package with a lower version stands for the version before.
	dpkg-deb --raw-extract "$package" "$older"
	sed --in-place 's/^Version: .*/Version: 0.0.1/' "$older/DEBIAN/control"
	dpkg-deb --root-owner-group -Zgzip --build "$older" "$root/tmp/older.deb" >/dev/null
	inside dpkg --install /tmp/older.deb >/dev/null
	isolated "$root" bash /tmp/upgrade.sh /tmp/wirerate.deb "$version" || fail "the upgrade"
	left=$(diff <(echo "$before") <(files) || true)
	[ -z "$left" ] || fail "after an upgrade, purging left or removed: $left"
	[ ! -e "$root/run/wirerate" ] || fail "after an upgrade, purging left /run/wirerate"
	passed "the Debian package was installed, used, upgraded and purged"
}

check_twice
version=$(dpkg-deb --field "$work"/one/wirerate_*.deb Version)
check_static
check_rpm
check_image
check_deb
check_core
