# shellcheck shell=bash disable=SC2154 # variables of tools/package.sh, which reads this file
# The Debian packages, for the architecture and release of this machine.

# What belongs to Debian: licences, changes, scripts of the package manager.
install_debian() {
	local package=$1 root=$2 maintainer=$3 script
	local doc=$root/usr/share/doc/$package
	if [ "$package" = wirerate-bench ]; then
		install -D --mode=644 docs/bench.md "$doc/bench.md"
	else
		install_documents "$doc"
	fi
	install -d "$root/DEBIAN"
	install --mode=644 packaging/copyright "$doc/copyright"
	gzip -9n <<-END >"$doc/changelog.gz"
		$package ($version) unstable; urgency=medium

		  * Built from commit $(git rev-parse --short=12 HEAD); CHANGELOG.md has the changes.

		 -- $maintainer  $(date -R --date="@$SOURCE_DATE_EPOCH")
	END
	gzip -9nc CHANGELOG.md >"$doc/CHANGELOG.md.gz"
	# The scripts are those of the services.
	[ "$package" = wirerate ] || return 0
	for script in postinst prerm postrm; do
		install --mode=755 "packaging/$script" "$root/DEBIAN/$script"
	done
}

# Dependencies from the libraries that the program is linked with.
write_control() {
	local package=$1 root=$2 maintainer=$3 architecture=$4 depends contents relations
	local programs=("$root"/usr/bin/wirerate*)
	printf 'Source: wirerate\n\nPackage: wirerate\nArchitecture: any\n' >"$work/debian/control"
	depends=$(cd "$work" && dpkg-shlibdeps -O "${programs[0]}" 2>/dev/null | sed 's/^shlibs:Depends=//')
	[ -n "$depends" ] || { echo "dpkg-shlibdeps found no libraries" >&2 && exit 1; }
	case "$package" in
	wirerate) contents="all commands" relations=$(replaces wirerate-core) ;;
	wirerate-core)
		contents="the core: no hub, API, pages, searches and Parquet" relations=$(replaces wirerate)
		;;
	wirerate-bench)
		contents="the program that measures its rates on your devices" relations="Enhances: wirerate"
		depends+=", wirerate (= $version) | wirerate-core (= $version)"
		;;
	esac
	cat >"$root/DEBIAN/control" <<-END
		Package: $package
		Version: $version
		Architecture: $architecture
		Maintainer: $maintainer
		Installed-Size: $(du --summarize --apparent-size --block-size=1024 --exclude=DEBIAN "$root" | cut -f1)
		Depends: $depends
		$relations
		Recommends: libpcap0.8
		Section: net
		Priority: optional
		Description: packet generator and packet capture at the speed of the kernel
		 wirerate sends, captures and measures packets through eBPF and XDP, without a
		 kernel module. It counts each lost frame and names the place of the loss.
		 .
		 Scripts for the packet generator of the kernel run unchanged on the control
		 files of wirerate, and the frames are the same, byte for byte.
		 .
		 This package has $contents.
	END
	(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) \
		>"$root/DEBIAN/md5sums"
}

# The fields of a package that takes the place of another one.
replaces() {
	printf 'Conflicts: %s\nReplaces: %s' "$1" "$1"
}

# make_deb PACKAGE PROGRAM
make_deb() {
	local package=$1 program=$2 root=$work/debian/$1 architecture maintainer
	architecture=$(dpkg --print-architecture)
	# Unless the builder is named as for other Debian packages.
	maintainer="${DEBFULLNAME:-The wirerate authors} <${DEBEMAIL:-wirerate@example.org}>"
	if [ "$package" = wirerate-bench ]; then
		install -D --mode=755 "$program" "$root/usr/bin/wirerate-bench"
	else
		install_program "$program" "$root/usr" vendor-completions "$program"
	fi
	[ "$package" != wirerate ] || install -D --mode=644 --target-directory="$root/lib/systemd/system" packaging/*.service
	install_debian "$package" "$root" "$maintainer"
	write_control "$package" "$root" "$maintainer" "$architecture"
	set_times "$root"
	dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$out/${package}_${version}_$architecture.deb" >/dev/null
}
