# Completion of wirerate for fish. `wirerate complete` prints the candidates.
function __wirerate_complete
    set -l current (commandline -ct)
    set -l words (commandline -opc) "$current"
    for candidate in (command wirerate complete -- $words 2>/dev/null)
        switch $candidate
            case :files
                __fish_complete_path $current
            case :dirs
                __fish_complete_directories $current
            case ':command *'
                __fish_complete_subcommand --fcs-skip=(string replace ':command ' '' -- $candidate)
            case '*'
                echo $candidate
        end
    end
end
for name in wirerate mgdump mgcap mgcap_hwtstamp_config
    complete -c $name -f -a '(__wirerate_complete)'
end
