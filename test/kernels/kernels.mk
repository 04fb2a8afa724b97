# SPDX-License-Identifier: Apache-2.0
#
# The tests on kernels that this machine does not run (docs/kernels.md).

.PHONY: deps-kernels test-kernels test-kernels-short

KERNELS_FLAGS ?=
kernels = $(GO) run ./test/kernels/cmd/kernels -results .cache/kernels/results.json $(KERNELS_FLAGS)

deps-kernels: deps
	@scripts/deps.sh kernels

test-kernels: deps-kernels build ## the tests on each kernel that apt offers, in an emulator (hours)
	$(kernels) long

test-kernels-short: deps-kernels build ## some of them on 6.1 and 6.12 (10 minutes)
	$(kernels) short
