# shellcheck shell=bash
# set_target TARGET sets the environment of cargo for a target of the packages, in the folder of the
# repository, and `output`, the folder of what is built.
#
# Paths of this machine are mapped to names, so that builds in two folders give the same bytes.

set_target() {
	local target=$1 cpu=${1%%-*} name=${1//-/_} crates=${CARGO_HOME:-$HOME/.cargo} c_flags musl
	output=${CARGO_TARGET_DIR:-$PWD/target}
	# Beside those of .cargo/config.toml, which RUSTFLAGS would replace.
	export "CARGO_TARGET_${name^^}_RUSTFLAGS=--remap-path-prefix=$PWD=wirerate --remap-path-prefix=$output=target --remap-path-prefix=$crates=cargo"
	c_flags="-ffile-prefix-map=$PWD=wirerate -ffile-prefix-map=$output=target -ffile-prefix-map=$crates=cargo"
	case "$target" in
	x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
	x86_64-unknown-linux-musl | aarch64-unknown-linux-musl)
		musl=$(tools/musl.sh "$cpu")
		# rust-lld comes with Rust, as do the start files and the C library of musl. In the folder of
		# libelf and zlib are no shared libraries, so the linker takes the static ones.
		export "CARGO_TARGET_${name^^}_LINKER=rust-lld" "CC_$name=clang" "AR_$name=ar"
		export "LIBBPF_SYS_LIBRARY_PATH_$name=$musl/lib"
		c_flags+=" -nostdlibinc -isystem $musl/include -idirafter $musl/kernel"
		[ "$cpu" != aarch64 ] || c_flags+=" -mno-outline-atomics"
		;;
	*)
		echo "wirerate: \"$target\" is not a target of the packages" >&2
		echo "  try: x86_64-unknown-linux-gnu, x86_64-unknown-linux-musl or aarch64-unknown-linux-musl" >&2
		exit 2
		;;
	esac
	# What is compiled for this machine while building, such as libbpf, is the same for each target; with
	# other options for each it would be built again, and all crates that use it.
	export "CFLAGS_$(uname -m)_unknown_linux_gnu=${c_flags%% -nostdlibinc*}" "CFLAGS_$name=$c_flags"
}
