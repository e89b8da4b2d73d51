# Completion of wirerate for bash. `wirerate complete` prints the candidates.
_wirerate() {
	local line=${COMP_LINE:0:COMP_POINT} current candidate
	local -a words found
	read -ra words <<<"$line"
	if [[ $line == *[[:space:]] ]]; then words+=(""); fi
	current=${words[${#words[@]} - 1]}
	COMPREPLY=()
	mapfile -t found < <(command wirerate complete -- "${words[@]}" 2>/dev/null)
	for candidate in "${found[@]}"; do
		case $candidate in
		:files)
			compopt -o filenames 2>/dev/null
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
			;;
		:dirs)
			compopt -o filenames 2>/dev/null
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$current")
			;;
		:command*)
			if declare -F _command_offset >/dev/null; then
				_command_offset "${candidate#:command }"
			elif [[ ${#words[@]} -eq $((${candidate#:command } + 1)) ]]; then
				mapfile -t COMPREPLY < <(compgen -c -- "$current")
			else
				compopt -o filenames 2>/dev/null
				mapfile -t COMPREPLY < <(compgen -f -- "$current")
			fi
			;;
		*)
			candidate=${candidate%%$'\t'*}
			# bash replaces what follows the last `=` only.
			if [[ $current == --*=* ]]; then candidate=${candidate#*=}; fi
			COMPREPLY+=("$candidate")
			;;
		esac
	done
}
complete -F _wirerate wirerate mgdump mgcap mgcap_hwtstamp_config
