# SPDX-License-Identifier: Apache-2.0
#
# Running the tests: the Makefile includes this. test/rerun runs `go test`, records the output of each test
# in .cache/test, and reruns failed tests.

.PHONY: test test-young test-fresh deps-soak deps-captures test-race test-others test-timed test-again flaky rerun

# Packages tested under the race detector (a regular expression: it takes several times as long, so packages that count
# packets are excluded), the slowest packages, which start first so that the others fill the remaining time, and the
# limits of one run.
RACE_PKGS    ?= (/internal/(cli|daemon|filter|netdev|rest|shadow|slowpath|store|topology|trace)|/polycube/(cube|health))(/|$$)
SLOW_PKGS    ?= ./test/e2e ./internal/datapath ./test/guide ./cubes/nat ./cubes/firewall ./test/hairpin ./cubes/bridge ./cubes/router \
	./cubes/iptables ./cubes/ddosmitigator ./examples/cubes/ministate ./cubes/pbforwarder ./cubes/synflood ./test/fates ./internal/yang ./classifier ./test/perf ./test/cubeapi ./test/rerun \
	./test/trials ./cubes/simplebridge ./cmd/polycubed ./internal/check \
	./internal/store ./internal/rest ./internal/topology ./internal/cli
TEST_TIMEOUT ?= 30m
# No cached results: the cache does not depend on the kernel or on bin/. Three parallel tests per package, with two
# packages under the race detector and three others, keep two CPUs busy; with four tests, or three and three packages,
# the same tests take a tenth longer.
TEST_FLAGS   ?= -count=1 -parallel 3
# Tests with a time limit. They run after all others, one at a time.
TIMED_TESTS  := ^TestTimed
# The tests that make flaky repeats (package.test), and its limits: -for TIME, -runs N, -copies N, -burners N.
TESTS        ?=
FLAKY_FLAGS  ?=

RERUN    := .cache/bin/rerun
packages   = { printf '%s\n' $(SLOW_PKGS:./%=$(MODULE)/%); $(GO) list ./...; } | awk '!listed[$$0]++'
race_pkgs  = $(or $(RACE_PKGS),^$$)
# Test binaries without debug symbols and without the system's linker link in half the time; stack traces of panics need
# neither. Without the paths of this directory, packages compiled for another clone, or by make build, are reused.
go_test    = -vet=off -trimpath -ldflags '-s -w -linkmode=internal' -timeout $(TEST_TIMEOUT) -p $(1) $(TEST_FLAGS)
all_tests  = $(if $(filter -run%,$(TEST_FLAGS)),,all)
untimed    = $(if $(all_tests),-skip '$(TIMED_TESTS)')

# By default, the race detector makes every process wait a second before it exits.
export GORACE ?= atexit_sleep_ms=0

# Garbage collection takes a tenth of the time of tests and compiler; there is enough memory to collect less often.
test-race test-others: export GOGC ?= 400

rerun:
	@$(GO) build -o $(RERUN) ./test/rerun/cmd/rerun

# A failure does not stop the others, so that all failures are known.
test: ## run every test, unit and root (root tests skip if not root)
	@rm -f .cache/test/*.json .cache/test/*.run .cache/test/flaky.txt
	@$(MAKE) -j4 build python bpffs deps-openapi deps-monitoring deps-captures rerun
	@for of in nat upf; do scripts/baseline.sh $$of >/dev/null || [ $$? = 3 ] || exit; done
	@exit=0; $(MAKE) -k -j2 test-race test-others || exit=1; \
	$(if $(all_tests),$(MAKE) test-timed || exit=1;) exit $$exit

test-race: rerun
	@pkgs=$$($(packages) | grep -E '$(race_pkgs)') || exit 0; \
	echo "go test $(call go_test,2) -race" $$pkgs; $(RERUN) run race $(call go_test,2) $(untimed) -race -- $$pkgs

test-others: rerun
	@pkgs=$$($(packages) | grep -vE '$(race_pkgs)'); echo "go test $(call go_test,3), the other packages"; \
	$(RERUN) run others $(call go_test,3) $(untimed) -- $$pkgs

test-timed: rerun ## run the tests with a time limit (also a part of make test)
	@pkgs=$$(grep -rl --include='*_test.go' '^func $(TIMED_TESTS:^%=%)' . | xargs -n1 dirname | sort -u); \
	echo "go test $(call go_test,1) -parallel 1 -run '$(TIMED_TESTS)'" $$pkgs; \
	$(RERUN) run timed $(call go_test,1) -parallel 1 -run '$(TIMED_TESTS)' -- $$pkgs

test-again: rerun ## rerun the tests that failed in the last make test, alone and twice; fails if one fails again
	@$(RERUN) again $(if $(RACE_PKGS),race) others $(if $(all_tests),timed)

flaky: build python bpffs deps-openapi deps-monitoring deps-captures rerun ## run TESTS=package.test, or the known flaky tests, under load until they fail
	@$(RERUN) flaky -race '$(RACE_PKGS)' $(FLAKY_FLAGS) $(TESTS)

# Packages that compare timestamps of programs with the time, in a time namespace whose clocks started 20 seconds ago.
CLOCK_PKGS := ./cube ./cubes/bridge ./cubes/nat ./cubes/router ./cubes/simplebridge ./examples/... ./fdb ./internal/datapath ./internal/trace

test-young: build python bpffs ## run the tests that read the clock, with clocks that started 20 seconds ago
	@offset=$$((20 - $$(cut -d. -f1 /proc/uptime))); \
	unshare --time --fork --monotonic $$offset --boottime $$offset $(GO) test $(call go_test,3) $(untimed) $(CLOCK_PKGS)

deps-captures: deps
	@scripts/deps.sh captures

deps-soak: deps
	@scripts/deps.sh soak

test-fresh: deps-soak ## run the README's commands in a bare Debian 12, from a clean clone
	test/fresh/run.sh

include test/core/core.mk
