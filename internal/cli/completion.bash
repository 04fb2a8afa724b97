# SPDX-License-Identifier: Apache-2.0
# Completion of polycubectl for bash: what may follow is asked from the daemon.
# Use it with: source <(polycubectl completion bash)

_polycubectl() {
    local line=${COMP_LINE:0:COMP_POINT} cur break i
    COMPREPLY=()
    mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" __complete "$line" 2>/dev/null </dev/null)
    # Where "=" or ":" break words, bash replaces only what follows the break.
    cur=${line##*[[:space:]]}
    for break in = :; do
        if [[ $COMP_WORDBREAKS == *"$break"* && $cur == *"$break"* ]]; then
            local done=${cur%"$break"*}$break
            for i in "${!COMPREPLY[@]}"; do
                COMPREPLY[i]=${COMPREPLY[i]#"$done"}
            done
            cur=${cur#"$done"}
        fi
    done
    if [[ ${#COMPREPLY[@]} -eq 1 ]]; then
        case ${COMPREPLY[0]} in
            *= | */) compopt -o nospace ;;
            # A placeholder is to be read, not inserted: a second, empty reply keeps bash from it.
            '<'*'>') COMPREPLY+=('') ;;
        esac
    fi
}
complete -F _polycubectl polycubectl
