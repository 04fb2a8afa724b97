#compdef polycubectl
# SPDX-License-Identifier: Apache-2.0
# Completion of polycubectl for zsh: what may follow is asked from the daemon.
# Use it with: source <(polycubectl completion zsh), or as the file _polycubectl in $fpath.

_polycubectl() {
    local -a found open
    local word
    for word in "${(@f)$("${(Q)words[1]}" __complete "${(j: :)words[1,CURRENT-1]} ${PREFIX}" 2>/dev/null </dev/null)}"; do
        case $word in
            '') ;;
            '<'*'>') _message -r "${word[2,-2]}" ;;
            *= | */) open+=("$word") ;;
            *) found+=("$word") ;;
        esac
    done
    (( ${#open} )) && compadd -Q -S '' -- "${open[@]}"
    (( ${#found} )) && compadd -Q -- "${found[@]}"
}

if [[ $funcstack[1] == _polycubectl ]]; then
    _polycubectl "$@"
else
    compdef _polycubectl polycubectl
fi
