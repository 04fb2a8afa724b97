#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Mounts the BPF file system for pins. Pinned programs, maps and links survive the daemon.
set -euo pipefail
dir=${1:-/sys/fs/bpf}

if [ "$(stat -f -c %T "$dir" 2>/dev/null || true)" = bpf_fs ]; then
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "bpffs: $dir is not mounted and needs root; the tests that pin will skip" >&2
	exit 0
fi
mount -t bpf bpf "$dir"
echo "bpffs: mounted at $dir" >&2
