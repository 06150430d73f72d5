# Completion of acpx for fish. Write it once to a file that fish reads by itself:
#   acpx completions fish > ~/.config/fish/completions/acpx.fish
function __acpx_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (command acpx complete -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$current"
        else
            printf '%s\n' $line
        end
    end
end
complete -c acpx -f -a '(__acpx_complete)'
