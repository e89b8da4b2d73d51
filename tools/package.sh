#!/usr/bin/env bash
# Builds the packages of a release in target/package: a Debian package and SHA256SUMS.
#
#   tools/package.sh PROGRAM [DIR]
#
# PROGRAM is the built `wirerate`, DIR the folder for the packages. Two runs of the same commit give
# the same bytes: all times are that of the commit, or of SOURCE_DATE_EPOCH if it is set.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "${1:?"which program: target/release/wirerate"}")
out=$(realpath --canonicalize-missing "${2:-target/package}")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

version=$("$program" --version | sed -n '1s/^wirerate //p')
architecture=$(dpkg --print-architecture)
# The author of the commit, unless the builder is named as for other Debian packages.
maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/debian/wirerate

# The program, its small names, pages and completions. Debian's packages netsniff-ng and tcpreplay
# have programs named trafgen and tcpreplay, so these names are left to them.
install_program() {
	local name page
	install -D --strip --mode=755 "$program" "$root/usr/bin/wirerate"
	install -d "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
		"$root/usr/share/fish/vendor_completions.d"
	"$program" man --dir "$root/usr/share/man/man1" >/dev/null
	rm -f "$root"/usr/share/man/man1/{trafgen,tcpreplay}.1
	"$program" completions bash >"$root/usr/share/bash-completion/completions/wirerate"
	"$program" completions zsh >"$root/usr/share/zsh/vendor-completions/_wirerate"
	"$program" completions fish >"$root/usr/share/fish/vendor_completions.d/wirerate.fish"
	for name in mgdump mgcap mgcap_hwtstamp_config; do
		ln -s wirerate "$root/usr/bin/$name"
		ln -s wirerate "$root/usr/share/bash-completion/completions/$name"
	done
	for page in "$root"/usr/share/man/man1/*.1; do
		if [ -L "$page" ]; then
			ln -s "$(readlink "$page").gz" "$page.gz" && rm "$page"
		else
			gzip -9n "$page"
		fi
	done
	install -D --mode=644 --target-directory="$root/lib/systemd/system" packaging/wirerate.service \
		packaging/wirerate-otg.service
}

# What belongs to Debian: licences, changes, the documents, scripts of the package manager.
install_debian() {
	local doc=$root/usr/share/doc/wirerate script
	install -d "$doc/docs" "$root/DEBIAN"
	install --mode=644 packaging/copyright "$doc/copyright"
	install --mode=644 README.md "$doc/README.md"
	find docs -type f -exec install -D --mode=644 {} "$doc/{}" \;
	gzip -9n <<-END >"$doc/changelog.gz"
		wirerate ($version) unstable; urgency=medium

		  * Built from commit $(git rev-parse --short=12 HEAD); CHANGELOG.md has the changes.

		 -- $maintainer  $(date -R --date="@$SOURCE_DATE_EPOCH")
	END
	gzip -9nc CHANGELOG.md >"$doc/CHANGELOG.md.gz"
	for script in postinst prerm postrm; do
		install --mode=755 "packaging/$script" "$root/DEBIAN/$script"
	done
}

# Dependencies from the libraries that the program is linked with.
write_control() {
	local depends
	printf 'Source: wirerate\n\nPackage: wirerate\nArchitecture: any\n' >"$work/debian/control"
	depends=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/wirerate" 2>/dev/null | sed 's/^shlibs:Depends=//')
	[ -n "$depends" ] || { echo "dpkg-shlibdeps found no libraries" >&2 && exit 1; }
	cat >"$root/DEBIAN/control" <<-END
		Package: wirerate
		Version: $version
		Architecture: $architecture
		Maintainer: $maintainer
		Installed-Size: $(du --summarize --apparent-size --block-size=1024 --exclude=DEBIAN "$root" | cut -f1)
		Depends: $depends
		Recommends: libpcap0.8
		Section: net
		Priority: optional
		Description: packet generator and packet capture at the speed of the kernel
		 wirerate sends, captures and measures packets through eBPF and XDP, without a
		 kernel module. It counts each lost frame and names the place of the loss.
		 .
		 Scripts for the packet generator of the kernel run unchanged on the control
		 files of wirerate, and the frames are the same, byte for byte.
	END
	(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) \
		>"$root/DEBIAN/md5sums"
}

for tool in dpkg-deb dpkg-shlibdeps strip gzip; do
	command -v "$tool" >/dev/null || { echo "tools/package.sh needs $tool: apt-get install dpkg-dev binutils gzip" >&2 && exit 3; }
done
install_program
install_debian
write_control
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
install -d "$out"
# Packages of earlier versions go; whatever else is in the folder stays.
rm -f "$out"/wirerate_*.deb "$out/SHA256SUMS"
package=wirerate_${version}_$architecture.deb
dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$out/$package" >/dev/null
(cd "$out" && sha256sum -- *.deb >SHA256SUMS)
echo "$out/$package"
