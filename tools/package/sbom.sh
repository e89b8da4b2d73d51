# shellcheck shell=bash disable=SC2154 # variables of tools/package.sh, which reads this file
# The list of the software in the packages, in the format of CycloneDX.

make_sbom() {
	local checksums sources
	# "NAME VERSION" to the checksum that Cargo.lock has.
	checksums=$(sed -n 's/^\(name\|version\|checksum\) = "\(.*\)"$/\1 \2/p' Cargo.lock |
		awk '$1 == "name" { name = $2 } $1 == "version" { version = $2 } $1 == "checksum" { print name, version "\t" $2 }' |
		jq --raw-input --null-input '[inputs / "\t" | { key: .[0], value: .[1] }] | from_entries')
	cargo metadata --format-version 1 --locked --filter-platform x86_64-unknown-linux-musl \
		--filter-platform aarch64-unknown-linux-musl >"$work/metadata.json"
	sources=$(jq --raw-output '.packages[] | select(.name == "libbpf-sys").manifest_path' "$work/metadata.json")
	sources=${sources%/Cargo.toml}
	jq --from-file tools/package/sbom.jq --argjson checksums "$checksums" \
		--arg created "$(date --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
		--arg elfutils "$(sed -n 's/^AC_INIT(\[elfutils\],\[\([0-9.]*\)\].*/\1/p' "$sources/elfutils/configure.ac")" \
		--arg zlib "$(sed -n 's/^#define ZLIB_VERSION "\(.*\)"/\1/p' "$sources/zlib/zlib.h")" \
		"$work/metadata.json" >"$out/wirerate-$version.cdx.json"
}
