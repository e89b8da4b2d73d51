# shellcheck shell=bash disable=SC2154 # variables of tools/package.sh, which reads this file
# Packages of the statically linked program: a tarball, an RPM and an image for containers.

# The licences of wirerate and of what is linked with it.
install_licences() {
	install -D --mode=644 --target-directory="$1" LICENSE LICENSE-APACHE LICENSE-MIT packaging/STATIC-LIBRARIES
}

make_tarball() {
	local cpu=$1 program=$2 name=wirerate-$version
	local root=$work/tarball-$cpu/$name
	install_program "$program" "$root" site-functions
	install_documents "$root/share/doc/wirerate"
	install_licences "$root/share/doc/wirerate"
	install -D --mode=644 --target-directory="$root/lib/systemd/system" packaging/*.service
	# The units name the program where a package of a distribution has it.
	sed --in-place 's|/usr/bin/wirerate|/usr/local/bin/wirerate|' "$root"/lib/systemd/system/*.service
	tar_of "$work/tarball-$cpu" "$name" | gzip -9n >"$out/$name-linux-$cpu.tar.gz"
}

make_rpm() {
	local cpu=$1 program=$2
	local root=$work/rpm-$cpu
	install_program "$program" "$root/tree/usr" site-functions
	install_documents "$root/tree/usr/share/doc/wirerate"
	install_licences "$root/tree/usr/share/licenses/wirerate"
	install -D --mode=644 --target-directory="$root/tree/usr/lib/systemd/system" packaging/*.service
	set_times "$root/tree"
	rpmbuild -bb --quiet --target "$cpu-linux" --define "_topdir $root/build" --define "tree $root/tree" \
		--define "wirerate_version $version" --define "_rpmdir $root" --define '_rpmfilename %{name}.rpm' \
		packaging/wirerate.spec
	mv "$root/wirerate.rpm" "$out/wirerate-$version-1.$cpu.rpm"
}

# blob FOLDER: adds stdin to the blobs of an image; its digest.
blob() {
	local file digest
	file=$(mktemp "$1/blob.XXXXXX")
	cat >"$file"
	chmod 644 "$file"
	digest=$(sha256sum "$file" | cut -d ' ' -f 1)
	mv "$file" "$1/blobs/sha256/$digest"
	echo "$digest"
}

# An OCI image layout with one layer, which has the program alone.
make_image() {
	local cpu=$1 program=$2 architecture created
	local image=$work/image-$cpu root=$work/image-$cpu-root
	local layer difference config manifest
	case "$cpu" in
	x86_64) architecture=amd64 ;;
	aarch64) architecture=arm64 ;;
	esac
	created=$(date --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
	install -d "$image/blobs/sha256"
	install -D --mode=755 "$program" "$root/usr/bin/wirerate"
	install_licences "$root/usr/share/doc/wirerate"
	install -d --mode=1777 "$root/tmp"
	difference=$(tar_of "$root" | sha256sum | cut -d ' ' -f 1)
	layer=$(tar_of "$root" | gzip -9n | blob "$image")
	config=$(jq --null-input --compact-output --arg architecture "$architecture" --arg created "$created" \
		--arg version "$version" --arg layer "sha256:$difference" '{
			$created, $architecture, os: "linux",
			config: {
				Entrypoint: ["/usr/bin/wirerate"], Cmd: ["--help"], Env: ["PATH=/usr/bin:/bin"],
				Labels: {
					"org.opencontainers.image.title": "wirerate",
					"org.opencontainers.image.version": $version,
					"org.opencontainers.image.licenses": "MIT OR Apache-2.0"
				}
			},
			rootfs: { type: "layers", diff_ids: [$layer] },
			history: [{ $created, created_by: "tools/package.sh" }]
		}' | blob "$image")
	manifest=$(jq --null-input --compact-output \
		--arg config "$config" --argjson config_size "$(stat -c %s "$image/blobs/sha256/$config")" \
		--arg layer "$layer" --argjson layer_size "$(stat -c %s "$image/blobs/sha256/$layer")" '{
			schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
			config: {
				mediaType: "application/vnd.oci.image.config.v1+json",
				digest: "sha256:\($config)", size: $config_size
			},
			layers: [{
				mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
				digest: "sha256:\($layer)", size: $layer_size
			}]
		}' | blob "$image")
	echo '{"imageLayoutVersion":"1.0.0"}' >"$image/oci-layout"
	jq --null-input --compact-output --arg architecture "$architecture" --arg version "$version" \
		--arg manifest "$manifest" --argjson size "$(stat -c %s "$image/blobs/sha256/$manifest")" '{
			schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
			manifests: [{
				mediaType: "application/vnd.oci.image.manifest.v1+json",
				digest: "sha256:\($manifest)", $size, platform: { $architecture, os: "linux" },
				annotations: { "org.opencontainers.image.ref.name": "wirerate:\($version)" }
			}]
		}' >"$image/index.json"
	tar_of "$image" blobs index.json oci-layout >"$out/wirerate-$version-oci-$cpu.tar"
}
