# SPDX-License-Identifier: Apache-2.0
#
# The tests on kernels other than this machine's (docs/kernels.md).

.PHONY: deps-kernels build-arm64 test-kernels test-kernels-short test-kernels-arm64 test-powercut test-vm

KERNELS_FLAGS ?=
kernels = $(GO) run ./test/kernels/cmd/kernels -results .cache/kernels/results.json $(KERNELS_FLAGS)

deps-kernels: deps
	@scripts/deps.sh kernels

test-kernels: deps-kernels build ## run the tests on each kernel that apt offers, in an emulator (hours)
	$(kernels) long
	$(GO) run ./test/kernels/cmd/kernels $(KERNELS_FLAGS) -kernels 6.12 -own-clock test cubes/policer TestMarksKeepTCPAtTheRate

test-kernels-short: deps-kernels build ## run some of them on 6.1 and 6.12 (10 minutes)
	$(kernels) short

build-arm64: deps-kernels generate ## build bin/arm64/polycubed and bin/arm64/polycubectl
	$(GO) run ./test/kernels/cmd/kernels -arch arm64 build bin/arm64

test-kernels-arm64: build-arm64 ## run the short form on an emulated arm64 machine
	$(kernels) -arch arm64 -results .cache/kernels/results-arm64.json short

test-powercut: deps-kernels ## cut the power of a machine while it commits to the store, 60 times (4 minutes)
	$(kernels) -kernels 6.12 powercut

test-vm: deps-kernels build ## run a chain of network functions on two emulated machines, native XDP on virtio (2 minutes)
	$(GO) run ./test/kernels/cmd/kernels -kernels 6.12 -scale 6 -v $(KERNELS_FLAGS) evnf
