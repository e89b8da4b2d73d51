#!/usr/bin/env bash
# Installs what `make` needs and this machine does not have yet (Debian 12 and its kin).
#
#   tools/install.sh build|check|package|package-test|netns|vm|vm-arm64|vm-systemd|test|lint|docs|bench|spark
#
# What is there already costs nothing: no network, no privilege, no output. Exit 3 when something is
# missing and cannot be installed, with the line to type.
set -euo pipefail

# One a line: the package, and the command or file that shows that it is installed.
packages_for() {
	case "$1" in
	build) cat <<-END ;;
		clang            clang
		gcc              cc
		libc6-dev        /usr/include/stdio.h
		linux-libc-dev   /usr/include/linux/bpf.h
		libelf-dev       /usr/include/libelf.h
		make             make
		pkg-config       pkg-config
		zlib1g-dev       /usr/include/zlib.h
	END
	netns) cat <<-END ;;
		ethtool          ethtool
		fish             fish
		iproute2         ip
		iputils-ping     ping
		jq               jq
		lz4              lz4
		netsniff-ng      trafgen
		nftables         nft
		nginx-light      nginx
		nsd              nsd
		procps           /usr/bin/kill
		python3          python3
		tcpdump          tcpdump
		tcpreplay        tcpreplay
		tmux             tmux
		tshark           tshark
		wireshark-common dumpcap
		xdp-tools        xdpdump
		xz-utils         xz
		zsh              zsh
		zstd             zstd
	END
	vm) cat <<-END ;;
		bash             bash
		binutils         strip
		busybox-static   busybox
		dash             dash
		ethtool          ethtool
		hostapd          hostapd
		iproute2         ip
		iputils-ping     ping
		iw               iw
		netsniff-ng      trafgen
		procps           /usr/bin/kill
		qemu-system-x86  qemu-system-x86_64
		seabios          /usr/share/seabios/bios-256k.bin
		tcpdump          tcpdump
		wireguard-tools  wg
		wireshark-common dumpcap
		wpasupplicant    wpa_supplicant
		xz-utils         xz
		zstd             zstd
	END
	vm-arm64) packages_for build && cat <<-END ;;
		qemu-system-arm  qemu-system-aarch64
		qemu-user-static qemu-aarch64-static
		xz-utils         xz
	END
	vm-systemd) packages_for package && packages_for vm && echo "mmdebstrap mmdebstrap" ;;
	test) packages_for bench && packages_for vm && echo "chromium chromium" && echo "curl curl" ;;
	bench) packages_for netns && printf "%s\n" "dnsperf dnsperf" "wrk wrk" ;;
	package) packages_for build && cat <<-END ;;
		binutils         ar
		dpkg-dev         dpkg-shlibdeps
		gzip             gzip
		jq               jq
		rpm              rpmbuild
	END
	package-test) packages_for package && cat <<-END ;;
		binutils         readelf
		buildah          buildah
		busybox-static   busybox
		lintian          lintian
		mmdebstrap       mmdebstrap
		qemu-user-static qemu-aarch64-static
		rpmlint          rpmlint
		systemd          systemd-analyze
		systemd-container systemd-nspawn
		tcpdump          tcpdump
	END
	check) packages_for build && printf "%s\n" "jq jq" "procps /usr/bin/kill" ;;
	lint) packages_for build && cat <<-END ;;
		clang-format     clang-format
		shellcheck       shellcheck
	END
	docs) packages_for build && echo "perl perl" ;;
	spark) echo "default-jre-headless java" ;;
	*)
		echo "tools/install.sh: \"$1\" is not a set (build, check, package, package-test, netns, vm, vm-arm64, vm-systemd, test, lint, docs, bench, spark)" >&2
		exit 2
		;;
	esac
}

is_there() {
	case "$1" in
	/*) [ -e "$1" ] ;;
	*) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null ;;
	esac
}

# Those of the lines on standard input that are not there.
missing_packages() {
	local package witness
	while read -r package witness; do
		[ -z "$package" ] || is_there "$witness" || echo "$package"
	done
}

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

apt_install() {
	apt update && apt install --yes --no-install-recommends "$@" >/dev/null
}

install_packages() {
	local packages="$*" # names without spaces, so a string will do
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "wirerate: this machine lacks what these packages bring: $packages" >&2
		echo "  try: as root, apt-get update && apt-get install $packages" >&2
		exit 3
	fi
	echo "installing $packages" >&2
	# A mirror that is being updated fails for a moment, so once more before giving up.
	# shellcheck disable=SC2086 # one word a package is what we want
	if ! apt_install $packages && ! { sleep 5 && apt_install $packages; }; then
		echo "wirerate: apt-get could not install $packages" >&2
		echo "  try: apt-get update && apt-get install $packages, and read what it says" >&2
		exit 3
	fi
}

need_rust() {
	local tool
	for tool in "$@"; do
		if ! "$tool" --version >/dev/null 2>&1; then
			echo "wirerate: $tool does not run here" >&2
			echo "  try: install Rust 1.91 or later with rustfmt and clippy, and put ~/.cargo/bin into PATH" >&2
			exit 3
		fi
	done
}

# Into cargo's own bin directory, outside this tree, so one build serves every clone.
install_cargo_deny() {
	cargo deny --version >/dev/null 2>&1 && return
	echo "installing cargo-deny (a few minutes, once)" >&2
	cargo install --quiet --locked cargo-deny --version '^0.20'
}

# mdbook makes the site of `make docs`. Debian does not have it.
install_mdbook() {
	local folder=/var/cache/wirerate/mdbook
	! command -v mdbook >/dev/null && [ ! -x "$folder/bin/mdbook" ] || return 0
	echo "building mdbook in $folder (a few minutes, once)" >&2
	cargo install --quiet --locked mdbook --version '^0.5' --no-default-features --features search --root "$folder"
}

# The standard library of Rust for the static packages.
install_targets() {
	local target
	for target in "$@"; do
		[ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] || continue
		if ! command -v rustup >/dev/null || ! rustup --quiet target add "$target"; then
			echo "wirerate: Rust has no standard library for $target here" >&2
			echo "  try: rustup target add $target" >&2
			exit 3
		fi
	done
}

# Python packages into an environment of its own: its name, what it can import then, the packages.
# Without them, tests print that they are skipped, or fail with CI=true.
install_venv() {
	local venv=/var/cache/wirerate/$1 imports=$2
	shift 2
	"$venv/bin/python" -c "import $imports" 2>/dev/null && return
	python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
	echo "installing the Python packages $* into $venv" >&2
	python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "$@"
}

# What tests compare with or use as clients.
install_python_packages() {
	install_venv python 'duckdb, MLRsearch, snappi, pytest' 'duckdb==2.0.0' 'MLRsearch==1.2.1' 'snappi==1.62.0' 'pytest==9.1.1'
}

# A Go of 1.25 or later into GO: that of PATH, else one that Debian's older Go fetches as a module.
find_go() {
	local folder=$1 version=1.25.5
	if GO=$(command -v go) && go version | grep --quiet --extended-regexp 'go1\.(2[5-9]|[3-9][0-9])|go[2-9]'; then
		return
	fi
	GO=$folder/go-$version/bin/go
	# A copy that is not whole is made again.
	! { "$GO" list std && "$GO" tool compile -V; } >/dev/null 2>&1 || return 0
	command -v go >/dev/null || install_packages golang-go
	local module
	module=golang.org/toolchain@v0.0.1-go$version.linux-$(dpkg --print-architecture)
	echo "fetching Go $version into $folder" >&2
	(cd "$folder" && GOPATH=$folder/modules GOFLAGS=-modcacherw go mod download "$module") &&
		rm -rf -- "$folder/go.new" "$folder/go-$version" &&
		cp --recursive "$folder/modules/pkg/mod/$module" "$folder/go.new" &&
		find "$folder/go.new/bin" "$folder/go.new/pkg/tool" -type f -exec chmod u+x {} + &&
		mv -- "$folder/go.new" "$folder/go-$version"
}

# The client of `wirerate otg` that is written in Go, for its tests. The first build takes minutes of
# CPU time; it is done again when the source has changed.
install_go_client() {
	local source folder=/var/cache/wirerate/go GO
	source=$(cd "$(dirname "$0")/../crates/wirerate/tests/netns/otg/gosnappi" && pwd)
	[ ! -x "$folder/gosnappi" ] || ! diff --recursive --brief "$source" "$folder/source" >/dev/null || return 0
	mkdir -p "$folder" && find_go "$folder" || return
	echo "building the gosnappi client in $folder (some minutes, once)" >&2
	(cd "$source" && GOPATH=$folder/modules GOCACHE=$folder/cache GOFLAGS='-modcacherw -buildvcs=false' "$GO" build -o "$folder/gosnappi" .) &&
		rm -rf -- "$folder/source" && cp --recursive "$source" "$folder/source"
}

# The hub of `wirerate fleet`, for its tests: Debian 12 has a version that is too old.
install_nats_server() {
	local folder=/var/cache/wirerate/nats go_folder=/var/cache/wirerate/go version=2.15.2 GO
	[ ! -x "$folder/nats-server" ] || return 0
	mkdir -p "$folder" "$go_folder" && find_go "$go_folder" || return
	echo "building nats-server $version in $folder (some minutes, once)" >&2
	GOPATH=$go_folder/modules GOCACHE=$go_folder/cache GOFLAGS=-modcacherw GOBIN=$folder \
		"$GO" install "github.com/nats-io/nats-server/v2@v$version"
}

# Debian's packages start servers on all addresses, so only their programs are unpacked.
install_prometheus() {
	local folder=/var/cache/wirerate/prometheus work package
	for package in prometheus prometheus-node-exporter; do
		[ ! -x "$folder/usr/bin/$package" ] || continue
		echo "unpacking $package into $folder" >&2
		work=$(mktemp -d)
		(cd "$work" && apt update && apt -o APT::Sandbox::User=root download "$package" && dpkg-deb --extract "$package"_*.deb "$folder")
		rm -rf -- "$work"
	done
}

set_name=${1:?"which set: build, check, package, package-test, netns, vm, vm-arm64, vm-systemd, test, lint, docs, bench or spark"}
wanted=$(packages_for "$set_name")
mapfile -t missing < <(missing_packages <<<"$wanted" | sort --unique)
if [ "${#missing[@]}" -gt 0 ]; then
	install_packages "${missing[@]}"
fi
need_rust cargo rustc
case "$set_name" in
vm) "$(dirname "$0")/vm-cache.sh" ;;
vm-arm64)
	install_targets "$(uname -m)-unknown-linux-musl" aarch64-unknown-linux-musl
	"$(dirname "$0")/vm-cache.sh" --arm64
	;;
vm-systemd)
	"$(dirname "$0")/vm-cache.sh" --systemd
	install_nats_server
	;;
# What needs a virtual machine says itself that it is skipped, or fails with CI=true.
test)
	"$(dirname "$0")/vm-cache.sh" || true
	install_python_packages || true
	# The version of snappi that public test suites pin, beside the newer one.
	install_venv python-snappi-1.58 snappi 'snappi==1.58.0' || true
	# An S3 server for the tests of `wirerate export`.
	install_venv python-moto moto.server 'moto[s3]==5.2.5' 'flask==3.1.3' 'flask-cors==6.0.5' || true
	install_go_client || true
	install_nats_server || true
	install_prometheus || true
	"$(dirname "$0")/kernel-samples.sh" >/dev/null || true
	;;
netns) install_nats_server || true ;;
bench) install_python_packages || true ;;
docs) install_mdbook ;;
spark) install_venv python-spark 'datafusion, duckdb, pyspark' 'datafusion==55.0.0' 'duckdb==2.0.0' 'pyspark==4.3.0' ;;
package | package-test) install_targets x86_64-unknown-linux-musl aarch64-unknown-linux-musl ;;
esac
if [ "$set_name" = lint ]; then
	need_rust cargo-fmt cargo-clippy
	# Without it the check for musl is skipped, and says so.
	(install_targets "$(uname -m)-unknown-linux-musl") || true
	install_cargo_deny
fi
