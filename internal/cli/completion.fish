# SPDX-License-Identifier: Apache-2.0
# Completion of polycubectl for fish: what may follow is asked from the daemon.
# Use it with: polycubectl completion fish | source

function __polycubectl
    set -l line (commandline -cp | string collect)
    # A placeholder is to be read, not inserted; fish quotes words itself.
    for word in (polycubectl __complete "$line" 2>/dev/null </dev/null)
        string match -qr '^<.*>$' -- $word; or string unescape -- $word
    end
end

complete -c polycubectl -f -a '(__polycubectl)'
