# SPDX-License-Identifier: Apache-2.0
#
# polycube-upf under an SMF that is made of another PFCP library, written in Rust: included by the Makefile.

.PHONY: deps-core rustfmt test-core

CORE_CARGO = CARGO_TARGET_DIR='$(CURDIR)/.cache/core' cargo
CORE_FLAGS = --locked --manifest-path test/core/smf/Cargo.toml

deps-core: deps
	@scripts/deps.sh core

test-core: build bpffs deps-core ## drive polycube-upf by an SMF of another PFCP library, with packets (a minute; the first build takes longer)
	$(CORE_CARGO) build $(CORE_FLAGS)
	$(CORE_CARGO) test $(CORE_FLAGS) --quiet
	POLYCUBE_CORE_SMF='$(CURDIR)/.cache/core/debug/core-smf' \
		$(GO) test -vet=off -count=1 -v -timeout 10m -run '^TestAnSMFOfOthers$$' ./test/e2e

# A part of make fmt.
fmt: rustfmt

rustfmt: deps
	@! command -v rustfmt >/dev/null || rustfmt --edition 2021 test/core/smf/src/*.rs
