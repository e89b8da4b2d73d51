# From `cargo metadata` to CycloneDX 1.5: wirerate, the crates that it is linked with or that generate
# its code, and the libraries in C that are linked statically.
#
# $created, $elfutils and $zlib are a time and versions; $checksums has the SHA-256 of each crate.
def purl: "pkg:cargo/\(.name)@\(.version | @uri)";

def component:
	{
		type: "library", "bom-ref": purl, name, version, purl: purl,
		# Early crates write a slash for "or".
		licenses: [{ expression: ((.license // "MIT OR Apache-2.0") | gsub(" */ *"; " OR ")) }]
	}
	+ (if .description then { description: (.description | gsub("\\s+"; " ") | ltrimstr(" ") | rtrimstr(" ")) } else {} end)
	+ ($checksums["\(.name) \(.version)"] as $sum
		| if $sum then { hashes: [{ alg: "SHA-256", content: $sum }] } else {} end)
	# Procedural macros run during the build.
	+ (if any(.targets[]; .kind == ["proc-macro"]) then { scope: "excluded" } else { scope: "required" } end);

def library($name; $version; $licence):
	{
		type: "library", "bom-ref": "pkg:generic/\($name)@\($version)", name: $name, version: $version,
		purl: "pkg:generic/\($name)@\($version)", licenses: [{ expression: $licence }], scope: "required",
		description: "linked statically in the packages for any Linux"
	};

(.packages | map({ key: .id, value: . }) | from_entries) as $packages
| (.resolve.nodes
	| map({ key: .id, value: [.deps[] | select(any(.dep_kinds[]; .kind == null)) | .pkg] })
	| from_entries) as $needs
| (.packages[] | select(.name == "wirerate") | .id) as $root
| def closure: . as $known
	| ([$known[], ($known[] | $needs[.][])] | unique)
	| if length == ($known | length) then . else closure end;
([$root] | closure) as $all
| {
	bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
	metadata: {
		timestamp: $created,
		component: ($packages[$root] | component | .type = "application" | del(.scope))
	},
	components: (
		($all - [$root] | map($packages[.] | component))
		+ [
			library("elfutils"; $elfutils; "GPL-2.0-or-later OR LGPL-3.0-or-later"),
			library("zlib"; $zlib; "Zlib")
		]
		| sort_by(.name, .version)
	),
	dependencies: (
		$all | map({ ref: ($packages[.] | purl), dependsOn: [$needs[.][] as $id | $packages[$id] | purl] | unique })
		| sort_by(.ref)
	)
}
