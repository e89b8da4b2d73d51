#!/usr/bin/env bash
# Fetches the kernel's sample scripts for pktgen (samples/pktgen of Debian's package linux-source-6.1) into a
# cache outside this tree, and prints the folder they are in. They are never committed: they are the test that
# scripts written for the kernel run here as they are.
set -euo pipefail

package=linux-source-6.1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/wirerate/pktgen-samples-6.1

# Tests that run side by side fetch them once.
mkdir -p "$(dirname "$cache")"
exec 9>"$cache.lock"
flock 9
if [ ! -e "$cache/functions.sh" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	download() { apt-get -qq download "$package" >&2; }
	# The lists of a new machine are empty, and a mirror that is being updated fails for a moment.
	download 2>/dev/null || { apt-get -qq update >&2 && { download || { sleep 5 && download; }; }; } || {
		echo "tools/kernel-samples.sh: apt-get could not download $package" >&2
		exit 3
	}
	dpkg-deb --fsys-tarfile "$package"_*.deb | tar --extract --to-stdout "./usr/src/$package.tar.xz" |
		tar --extract --xz --strip-components=3 --wildcards "$package/samples/pktgen/*"
	rm -rf "$cache.new" && mkdir "$cache.new"
	mv ./*.sh README.rst "$cache.new"
	mv "$cache.new" "$cache"
fi
echo "$cache"
