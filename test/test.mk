# SPDX-License-Identifier: Apache-2.0
#
# Running the tests: the Makefile includes this. test/steady runs `go test`, keeps what each test
# said in .cache/test, and knows what to run again.

.PHONY: test test-young test-fresh deps-soak test-race test-others test-timed test-again flaky steady

# Packages tested under the race detector (a regular expression: it costs several times
# the time, so not where packets are counted), those that take longest, which begin first
# so that the others fill the time beside them, and limits of one run.
RACE_PKGS    ?= (/internal/(cli|daemon|filter|netdev|rest|shadow|slowpath|store|topology|trace)|/polycube/cube)(/|$$)
SLOW_PKGS    ?= ./test/e2e ./internal/datapath ./test/authors ./cubes/nat ./cubes/bridge ./cubes/router ./cubes/pbforwarder \
	./test/fates ./internal/yang ./classifier ./test/perf ./test/author ./test/steady \
	./test/trials ./cubes/simplebridge ./cmd/polycubed ./internal/check \
	./internal/store ./internal/rest ./internal/topology ./internal/cli
TEST_TIMEOUT ?= 15m
# Nothing from the cache: it does not see the kernel, nor bin/. Three tests of a package at once, of two packages under
# the race detector and three others, keep two processors busy; with four, and three beside three, the same
# tests take a tenth more of their time.
TEST_FLAGS   ?= -count=1 -parallel 3
# Tests that hold the clock to a limit. They run when all others have ended, one at a time.
TIMED_TESTS  := ^TestTimed
# What make flaky repeats (package.test), and its bounds: -for TIME, -runs N, -copies N, -burners N.
TESTS        ?=
FLAKY_FLAGS  ?=

STEADY    := .cache/bin/steady
packages   = { printf '%s\n' $(SLOW_PKGS:./%=$(MODULE)/%); $(GO) list ./...; } | awk '!listed[$$0]++'
race_pkgs  = $(or $(RACE_PKGS),^$$)
# Test binaries without symbols for debuggers, and without the system's linker, link in half the time: traces of panics
# need neither. Without the paths of this directory, what was compiled for another clone, or by make build, is not compiled again.
go_test    = -vet=off -trimpath -ldflags '-s -w -linkmode=internal' -timeout $(TEST_TIMEOUT) -p $(1) $(TEST_FLAGS)
all_tests  = $(if $(filter -run%,$(TEST_FLAGS)),,all)
beside     = $(if $(all_tests),-skip '$(TIMED_TESTS)')

# The race detector would have every process wait a second before it ends.
export GORACE ?= atexit_sleep_ms=0

# A tenth of the tests' time, and of the compiler's, is the garbage collector's; there is memory to collect less often.
test-race test-others: export GOGC ?= 400

steady:
	@$(GO) build -o $(STEADY) ./test/steady/cmd/steady

# One that fails does not keep the others from running, so that what failed is known whole.
test: ## every test, unit and root (root tests skip when not root)
	@rm -f .cache/test/*.json .cache/test/*.run .cache/test/flaky.txt
	@$(MAKE) -j4 build python bpffs deps-openapi steady
	@exit=0; $(MAKE) -k -j2 test-race test-others || exit=1; \
	$(if $(all_tests),$(MAKE) test-timed || exit=1;) exit $$exit

test-race: steady
	@pkgs=$$($(packages) | grep -E '$(race_pkgs)') || exit 0; \
	echo "go test $(call go_test,2) -race" $$pkgs; $(STEADY) run race $(call go_test,2) $(beside) -race -- $$pkgs

test-others: steady
	@pkgs=$$($(packages) | grep -vE '$(race_pkgs)'); echo "go test $(call go_test,3), the other packages"; \
	$(STEADY) run others $(call go_test,3) $(beside) -- $$pkgs

test-timed: steady ## the tests that hold the clock to a limit (also a part of make test)
	@pkgs=$$(grep -rl --include='*_test.go' '^func $(TIMED_TESTS:^%=%)' . | xargs -n1 dirname | sort -u); \
	echo "go test $(call go_test,1) -parallel 1 -run '$(TIMED_TESTS)'" $$pkgs; \
	$(STEADY) run timed $(call go_test,1) -parallel 1 -run '$(TIMED_TESTS)' -- $$pkgs

test-again: steady ## what failed in the last make test, alone and twice; fails if it fails again
	@$(STEADY) again $(if $(RACE_PKGS),race) others $(if $(all_tests),timed)

flaky: build python bpffs deps-openapi steady ## TESTS=package.test, or the flaky ones known, under load until they fail
	@$(STEADY) flaky -race '$(RACE_PKGS)' $(FLAKY_FLAGS) $(TESTS)

# Packages that compare what programs write with the time, in a time namespace whose clocks began 20 seconds ago.
CLOCK_PKGS := ./cube ./cubes/bridge ./cubes/nat ./cubes/router ./cubes/simplebridge ./examples/... ./fdb ./internal/datapath ./internal/trace

test-young: build python bpffs ## the tests that read the clock, where it began 20 seconds ago
	@offset=$$((20 - $$(cut -d. -f1 /proc/uptime))); \
	unshare --time --fork --monotonic $$offset --boottime $$offset $(GO) test $(call go_test,3) $(beside) $(CLOCK_PKGS)

deps-soak: deps
	@scripts/deps.sh soak

test-fresh: deps-soak ## the README's commands in a bare Debian 12, from a clean clone
	test/fresh/run.sh
