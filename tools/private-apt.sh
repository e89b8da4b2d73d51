# shellcheck shell=bash
# An apt configuration of its own in $work, a folder of the script that reads this file. Packages of
# other releases and processors can be unpacked with it; it installs nothing on this machine.

# shellcheck disable=SC2154 # work belongs to the caller
private_apt() {
	APT_CONFIG="$work/apt.conf" "$@" </dev/null
}

# The mirror is the one that this machine uses itself.
mirror() {
	# shellcheck disable=SC2016 # these are apt-get's
	apt-get indextargets --format '$(SITE) $(SUITE) $(LABEL)' 'Created-By: Packages' |
		sed -n 's/^\([^ ]*\) .* *Debian$/\1/p' | head -n 1
}

# prepare_apt ARCHITECTURE SUITE...
prepare_apt() {
	local architecture=$1 suite site
	shift
	site=$(mirror)
	[ -n "$site" ] || { apt-get -qq update && site=$(mirror); }
	if [ -z "$site" ]; then
		echo "wirerate: apt-get here knows no mirror of Debian" >&2
		echo "  try: a machine with Debian 12" >&2
		exit 3
	fi
	mkdir -p "$work"/{etc/preferences.d,etc/apt.conf.d,etc/sources.list.d,lib/lists/partial,cache/archives/partial}
	: >"$work/status"
	for suite in "$@"; do
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main"
	done >"$work/etc/sources.list"
	cat >"$work/apt.conf" <<-END
		APT::Architecture "$architecture";
		APT::Architectures "$architecture";
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

# unpack SUITE FOLDER PACKAGE...
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
