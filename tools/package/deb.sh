# shellcheck shell=bash disable=SC2154 # variables of tools/package.sh, which reads this file
# The Debian package, for the architecture and release of this machine.

# What belongs to Debian: licences, changes, scripts of the package manager.
install_debian() {
	local root=$1 doc=$1/usr/share/doc/wirerate maintainer=$2 script
	install_documents "$doc"
	install -d "$root/DEBIAN"
	install --mode=644 packaging/copyright "$doc/copyright"
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
	local root=$1 maintainer=$2 architecture=$3 depends
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

make_deb() {
	local root=$work/debian/wirerate architecture maintainer
	architecture=$(dpkg --print-architecture)
	# The author of the commit, unless the builder is named as for other Debian packages.
	maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
	install_program "$native" "$root/usr" vendor-completions
	install -D --mode=644 --target-directory="$root/lib/systemd/system" packaging/*.service
	install_debian "$root" "$maintainer"
	write_control "$root" "$maintainer" "$architecture"
	set_times "$root"
	dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$out/wirerate_${version}_$architecture.deb" >/dev/null
}
