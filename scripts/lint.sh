#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# All checks that read the sources without running them. All steps run, so that one call shows everything that must be
# fixed.
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

# Files that a change has deleted are still in the index until it is committed.
existing() {
	local f
	while IFS= read -r -d '' f; do
		if [ -e "$f" ]; then printf '%s\0' "$f"; fi
	done
}

c_format() { tracked '*.c' '*.h' | existing | xargs -0r clang-format --dry-run --Werror; }

# Only make test-core needs Rust: without a rustfmt there is nothing to compare with.
rust_format() {
	command -v rustfmt >/dev/null || { echo 'lint: there is no rustfmt: skipped' >&2 && return 0; }
	tracked '*.rs' | existing | xargs -0r rustfmt --check --edition 2021
}

shell_check() { tracked '*.sh' .ci/run deploy/polycube-cc | existing | xargs -0r shellcheck; }

# pyang_lint runs pyang without two rules about publishing a module as an RFC.
pyang_lint() {
	local found
	found=$(.cache/pyang/bin/pyang -W none -p yang --lint "$1" 2>&1 |
		grep -v -e 'statement "module" must have a "contact"' \
			-e 'statement "revision" must have a "reference"')
	[ -z "$found" ] || { printf '%s\n' "$found" && return 1; }
}

models() {
	local model status=0
	while IFS= read -r -d '' model; do
		yanglint -p yang "$model" || status=1
		pyang_lint "$model" || status=1
	done < <(tracked 'yang/*.yang' 'cubes/*.yang' 'examples/*.yang' | existing)
	return $status
}

tidy() { go mod tidy -diff || { echo 'go.mod: run go mod tidy' >&2 && return 1; }; }

step golangci-lint .cache/bin/golangci-lint run --allow-parallel-runners ./...
step 'clang-format (fix: make fmt)' c_format
step 'rustfmt (fix: make fmt)' rust_format
step 'go.mod is tidy' tidy
step shellcheck shell_check
step 'service protocol (make proto)' scripts/proto.sh --check
step 'models (yanglint, pyang)' models

if [ ${#failed[@]} -gt 0 ]; then
	printf 'lint: to mend: %s\n' "${failed[@]}" >&2
	exit 1
fi
