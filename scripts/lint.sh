#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Everything that reads the sources without running them. All steps run, so that
# one call shows all there is to mend.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
failed=()

step() {
	local name=$1
	shift
	echo "lint: $name" >&2
	"$@" || failed+=("$name")
}

tracked() { git -c safe.directory='*' ls-files -z -- "$@"; }

# Listed files that a change has deleted are still in the index until it is committed.
existing() {
	local f
	while IFS= read -r -d '' f; do
		if [ -e "$f" ]; then printf '%s\0' "$f"; fi
	done
}

c_format() { tracked '*.c' '*.h' | existing | xargs -0r clang-format --dry-run --Werror; }

shell_check() { tracked '*.sh' .ci/run | existing | xargs -0r shellcheck; }

models() {
	local model status=0
	while IFS= read -r -d '' model; do
		yanglint -p yang "$model" || status=1
		.cache/pyang/bin/pyang -p yang --lint "$model" || status=1
	done < <(tracked 'yang/*.yang' 'cubes/*.yang' | existing)
	return $status
}

step golangci-lint .cache/bin/golangci-lint run ./...
step 'clang-format (make fmt mends it)' c_format
step shellcheck shell_check
step 'models (yanglint, pyang)' models

if [ ${#failed[@]} -gt 0 ]; then
	printf 'lint: to mend: %s\n' "${failed[@]}" >&2
	exit 1
fi
