#!/usr/bin/env bash
# Builds the packages of a release in target/package:
#
#   wirerate_VERSION_amd64.deb              for Debian and Ubuntu, with the libraries of the system
#   wirerate-core_VERSION_amd64.deb         the same without hub, API, pages, searches and Parquet
#   wirerate-bench_VERSION_amd64.deb        what measures it on the devices of a user
#   wirerate-VERSION-1.CPU.rpm              for Fedora, RHEL and SUSE, linked statically
#   wirerate-VERSION-linux-CPU.tar.gz       for any Linux, linked statically
#   wirerate-VERSION-oci-CPU.tar            the same as an image for containers
#   wirerate-VERSION-py3-none-any.whl       the package for Python and pytest (docs/pytest.md)
#   wirerate-VERSION.cdx.json               the software in them (CycloneDX)
#   SHA256SUMS
#
#   tools/package.sh [DIR]                  CPU is x86_64 and aarch64
#
# Two runs of the same commit give the same bytes, also in different folders: all times are that of
# the commit, or of SOURCE_DATE_EPOCH if it is set. WIRERATE_CPUS=x86_64 leaves out arm64;
# WIRERATE_CPUS= leaves out all static packages.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath --canonicalize-missing "${1:-target/package}")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
for tool in dpkg-deb dpkg-shlibdeps gzip jq python3 rpmbuild; do
	command -v "$tool" >/dev/null || { echo "tools/package.sh needs $tool; try: tools/install.sh package" >&2 && exit 3; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra cpus <<<"${WIRERATE_CPUS-x86_64 aarch64}"
core=$(tools/release.sh "$(uname -m)-unknown-linux-gnu" core)
bench=$(tools/release.sh "$(uname -m)-unknown-linux-gnu" bench)
native=$(tools/release.sh "$(uname -m)-unknown-linux-gnu")
version=$("$native" --version | sed -n '1s/^wirerate //p')

# Everything in a folder gets the time of the commit.
set_times() {
	find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# tar_of FOLDER [ENTRY...]: a tar archive with one order, one owner and one time, on stdout.
tar_of() {
	local folder=$1
	shift
	tar --create --directory="$folder" --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
		--owner=0 --group=0 --numeric-owner -- "${@:-.}"
}

# install_program PROGRAM PREFIX ZSH [DESCRIBED]: the program, its small names, pages and completions,
# which DESCRIBED writes if PROGRAM does not run here. Packages of distributions have programs named
# trafgen and tcpreplay, so these names are left to them.
install_program() {
	local program=$1 prefix=$2 zsh=$3 described=${4:-$native} name page
	install -D --mode=755 "$program" "$prefix/bin/wirerate"
	install -d "$prefix/share/bash-completion/completions" "$prefix/share/zsh/$zsh" "$prefix/share/fish/vendor_completions.d"
	"$described" man --dir "$prefix/share/man/man1" >/dev/null
	rm -f "$prefix"/share/man/man1/{trafgen,tcpreplay}.1
	"$described" completions bash >"$prefix/share/bash-completion/completions/wirerate"
	"$described" completions zsh >"$prefix/share/zsh/$zsh/_wirerate"
	"$described" completions fish >"$prefix/share/fish/vendor_completions.d/wirerate.fish"
	for name in mgdump mgcap mgcap_hwtstamp_config; do
		"$described" "$name" --help >/dev/null 2>&1 || continue
		ln -s wirerate "$prefix/bin/$name"
		ln -s wirerate "$prefix/share/bash-completion/completions/$name"
	done
	for page in "$prefix"/share/man/man1/*.1; do
		if [ -L "$page" ]; then
			ln -s "$(readlink "$page").gz" "$page.gz" && rm "$page"
		else
			gzip -9n "$page"
		fi
	done
}

# The documents, below a folder.
install_documents() {
	install -d "$1"
	install --mode=644 README.md "$1/README.md"
	find docs -type f -exec install -D --mode=644 {} "$1/{}" \;
}

# shellcheck source=tools/package/deb.sh
. tools/package/deb.sh
# shellcheck source=tools/package/static.sh
. tools/package/static.sh
# shellcheck source=tools/package/sbom.sh
. tools/package/sbom.sh

install -d "$out"
# Packages of earlier versions go; whatever else is in the folder stays.
rm -f "$out"/wirerate[_-]*.{deb,rpm,tar.gz,tar,whl,cdx.json} "$out/SHA256SUMS"
make_deb wirerate "$native"
make_deb wirerate-core "$core"
make_deb wirerate-bench "$bench"
for cpu in "${cpus[@]}"; do
	program=$(tools/release.sh "$cpu-unknown-linux-musl")
	make_tarball "$cpu" "$program"
	make_rpm "$cpu" "$program"
	make_image "$cpu" "$program"
done
PYTHONDONTWRITEBYTECODE=1 python3 python/wheel_backend.py "$out" >/dev/null
make_sbom
(cd "$out" && sha256sum -- wirerate[_-]* >SHA256SUMS)
(cd "$out" && ls -- wirerate[_-]*)
