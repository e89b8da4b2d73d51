#!/usr/bin/env bash
# Prepares what a static program with musl is compiled with, and prints its folder: the headers of
# musl and of the kernel (include, kernel), and libelf and zlib (lib), built from the sources in the
# crate libbpf-sys. The compiler is clang, for each processor the same.
#
#   tools/musl.sh x86_64|aarch64
#
# WIRERATE_MUSL_CACHE is the folder for all of them, by default /var/cache/wirerate/musl. What is
# there already costs nothing. Another crate, compiler or text of this script gets another folder.
set -euo pipefail
cd "$(dirname "$0")/.."

cpu=${1:?"which processor: x86_64 or aarch64"}
case "$cpu" in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*)
	echo "tools/musl.sh: \"$cpu\" is not a processor (x86_64, aarch64)" >&2
	exit 2
	;;
esac
cache=${WIRERATE_MUSL_CACHE:-/var/cache/wirerate/musl}
# shellcheck source=tools/private-apt.sh
. tools/private-apt.sh

# The folder of the crate with the sources.
crate=$(cargo metadata --format-version 1 --locked |
	grep --only-matching '"manifest_path":"[^"]*/libbpf-sys-[^"]*/Cargo.toml"' | head -n 1 |
	sed 's/.*"manifest_path":"//; s|/Cargo.toml"$||')
flags=$({ cat tools/musl.sh && clang --version; } | sha256sum | cut -c 1-12)
folder=$cache/$cpu-$(basename "$crate")-$flags

fetch_headers() {
	local suite
	# shellcheck source=/dev/null
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	prepare_apt "$architecture" "$suite"
	unpack "$suite" "$work/unpacked" musl-dev linux-libc-dev
	mv "$work/unpacked/usr/include/$cpu-linux-musl" "$work/new/include"
	mv "$work/unpacked/usr/include" "$work/new/kernel"
	mv "$work/new/kernel/$cpu-linux-gnu/asm" "$work/new/kernel/asm"
}

# library NAME SOURCES... with the flags in FLAGS.
library() {
	local name=$1 objects=$work/objects-$1
	shift
	mkdir "$objects"
	export FLAGS objects
	# shellcheck disable=SC2016 # the inner shell expands them
	printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" \
		sh -c 'clang $FLAGS -c "$0" -o "$objects/$(basename "$0" .c).o"'
	ar rcsD "$work/new/lib/lib$name.a" "$objects"/*.o
}

build_libraries() {
	local common="--target=$cpu-linux-musl -O2 -fPIC -w -ferror-limit=2 -ffile-prefix-map=$crate=libbpf-sys -nostdlibinc -isystem $work/new/include -idirafter $work/new/kernel"
	local elfutils=$crate/elfutils zlib=$crate/zlib
	[ "$cpu" != aarch64 ] || common="$common -mno-outline-atomics"
	# What configure of elfutils finds with musl and clang.
	cat >"$work/config.h" <<-END
		#define _GNU_SOURCE 1
		#define HAVE_DECL_MEMPCPY 0
		#define HAVE_DECL_MEMRCHR 1
		#define HAVE_DECL_POWEROF2 1
		#define HAVE_DECL_RAWMEMCHR 0
		#define HAVE_DECL_REALLOCARRAY 1
		#define HAVE_DECL_STRERROR_R 1
		#define HAVE_ERR_H 1
		#define HAVE_VISIBILITY 1
		#define HAVE_GCC_STRUCT 0
		#include <eu-config.h>
	END
	FLAGS="$common -DHAVE_CONFIG_H -std=gnu99 -I$work -I$elfutils/libelf -I$elfutils/lib -I$zlib" \
		library elf "$elfutils"/libelf/*.c
	FLAGS="$common -DHAVE_UNISTD_H -D_LARGEFILE64_SOURCE=1" library z "$zlib"/*.c
	cp "$elfutils"/libelf/{libelf,gelf,elf}.h "$zlib"/{zlib,zconf}.h "$work/new/include"
}

if [ ! -e "$folder" ]; then
	echo "preparing musl for $cpu in $folder (a minute, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/.new.XXXXXX")
	trap 'rm -rf -- "$work"' EXIT
	mkdir -p "$work/new/lib"
	fetch_headers
	build_libraries
	# Another run may have been faster.
	mv --no-target-directory -- "$work/new" "$folder" 2>/dev/null || [ -e "$folder" ]
fi
echo "$folder"
