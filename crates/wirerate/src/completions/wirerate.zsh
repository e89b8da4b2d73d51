#compdef wirerate mgdump mgcap mgcap_hwtstamp_config
# Completion of wirerate for zsh. `wirerate complete` prints the candidates.
_wirerate() {
	local candidate word help
	local -a found described
	found=("${(@f)$(command wirerate complete -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
	for candidate in "${(@)found}"; do
		case $candidate in
		"") ;;
		:files) _files ;;
		:dirs) _files -/ ;;
		:command*)
			local skipped=${candidate#:command }
			shift $skipped words
			((CURRENT -= skipped))
			_normal
			return
			;;
		*)
			word=${candidate%%$'\t'*} help=${candidate#*$'\t'}
			described+=("${word//:/\\:}:$help")
			;;
		esac
	done
	if (($#described)); then _describe wirerate described; fi
}
if [ "$funcstack[1]" = "_wirerate" ]; then
	_wirerate "$@"
else
	compdef _wirerate wirerate mgdump mgcap mgcap_hwtstamp_config
fi
