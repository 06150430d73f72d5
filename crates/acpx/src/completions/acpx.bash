# Completion of acpx for bash. For every shell, put this line into ~/.bashrc:
#   eval "$(acpx completions bash)"
_acpx() {
  local rest="${COMP_LINE:0:COMP_POINT}" word value i count=0
  local -a words
  # Bash breaks words at characters such as = and @, so they are put together again as they stand on the line.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i == 0)) || [[ $rest == [[:space:]]* ]]; then
      rest=${rest#"${rest%%[![:space:]]*}"}
      words[count]=
      count=$((count + 1))
    fi
    # The last word ends at the cursor.
    [[ $rest == "$word"* ]] || word=$rest
    words[count - 1]+=$word
    rest=${rest#"$word"}
  done
  # Bash replaces only its own last word, and nothing of a separator.
  [[ $word != [=:] ]] || word=
  local kept=${words[count - 1]%"$word"}
  # An @ before its last word is part of what it replaces.
  kept=${kept%@}
  COMPREPLY=()
  while IFS= read -r value; do
    value=${value%%$'\t'*}
    if [[ $value == :files ]]; then
      compopt -o default 2>/dev/null
    else
      COMPREPLY[${#COMPREPLY[@]}]=${value#"$kept"}
    fi
  done < <(command acpx complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _acpx acpx
