#compdef acpx
# Completion of acpx for zsh. Put this file as _acpx into a directory of $fpath, or this line after compinit into ~/.zshrc:
#   eval "$(acpx completions zsh)"
_acpx() {
  local line value
  local -a lines values descriptions
  lines=("${(@f)$(command acpx complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  for line in $lines; do
    if [[ $line == :files ]]; then
      _files
      continue
    fi
    value=${line%%$'\t'*}
    values+=("$value")
    if [[ $line == *$'\t'* ]]; then
      descriptions+=("${(r:20:)value}  ${line#*$'\t'}")
    else
      descriptions+=("$value")
    fi
  done
  compadd -l -d descriptions -a -- values
}
if [[ $funcstack[1] == _acpx ]]; then
  _acpx "$@"
else
  compdef _acpx acpx
fi
