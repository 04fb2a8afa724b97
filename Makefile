# SPDX-License-Identifier: Apache-2.0
#
# One entry point for people and for CI: every target works from a clean clone
# and installs what it needs. Objects are compiled next to their sources, because
# the Go packages embed them; programs land in bin/.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.SECONDEXPANSION:

GO      ?= go
CLANG   ?= clang
STRIP   ?= llvm-strip
PREFIX  ?= /usr/local
MODULE  := github.com/polycube/polycube
GIT     := git -c safe.directory='*'
# The release, and the commit that is being built: 0.1.0+1a2b3c4.
VERSION ?= $(shell cat VERSION)$(shell $(GIT) describe --always --dirty --exclude '*' 2>/dev/null | sed 's/^/+/')

# Where Go may be installed without being in PATH, for example under sudo.
export PATH := $(PATH):/usr/local/go/bin:/usr/lib/go/bin

# In a checkout that another user owns, VCS stamping makes go build fail; the version comes from VERSION and git
# describe instead.
export GOFLAGS := $(filter-out -buildvcs=%,$(GOFLAGS)) -buildvcs=false
LDFLAGS := $(foreach package,cli daemon inspect upf,-X $(MODULE)/internal/$(package).Version=$(VERSION))

# A group of benchmarks, such as filters; empty is all that are in none.
BENCH        ?=
BENCH_FLAGS  ?=

# Every eBPF program is compiled twice: for TC (skb) and for XDP.
BPF_DIRS := $(wildcard balance bpf bucket classifier conntrack cube cubes examples fdb gtppath gtpu internal pcapfilter ring sdf sketch test)
BPF_SRC  := $(if $(BPF_DIRS),$(shell find $(BPF_DIRS) -name '*.bpf.c' | LC_ALL=C sort))
BPF_OBJ  := $(BPF_SRC:.bpf.c=.tc.o) $(BPF_SRC:.bpf.c=.xdp.o)
BPF_HDR  := $(if $(BPF_DIRS),$(shell find bpf -name '*.h'))
# The same flags as outside the repository, and source lines without the path of the checkout.
BPF_FLAGS := $(shell deploy/polycube-cc --flags) -ffile-prefix-map=$(CURDIR)=.

.PHONY: help deps deps-openapi deps-bench deps-monitoring deps-lint generate build python fmt lint soak bench docs reference proto new-cube new-vnf new-service install clean bpffs objects

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

deps: ## install missing packages (apt; needs root if something is missing)
	@scripts/deps.sh build

deps-openapi: deps
	@scripts/deps.sh openapi

deps-bench: deps
	@scripts/deps.sh bench

deps-monitoring: deps
	@scripts/deps.sh monitoring

deps-lint: deps
	@scripts/deps.sh lint

# BTF contains the source lines; DWARF would only make the binaries larger. The rename at the end makes parallel makes
# safe.
define compile
	@echo "  BPF  $@"
	@tmp=.cache/$(notdir $@).$$$$; trap 'rm -f "$$tmp"' EXIT; \
	$(CLANG) $(BPF_FLAGS) -D$(1) -c $< -o $$tmp && $(STRIP) -g $$tmp && mv $$tmp $@
endef

# Headers in the program's folder, or in its parent for programs in testdata, are dependencies like the shared ones.
%.tc.o: %.bpf.c Makefile $(BPF_HDR) $$(wildcard $$(dir $$@)*.h $$(dir $$@)../*.h)
	$(call compile,PCN_TC)

%.xdp.o: %.bpf.c Makefile $(BPF_HDR) $$(wildcard $$(dir $$@)*.h $$(dir $$@)../*.h)
	$(call compile,PCN_XDP)

generate: deps ## compile the eBPF programs for TC and XDP (incremental)
	@$(MAKE) $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc)) objects

objects: $(BPF_OBJ)
	@:

# The programs of iptables, ipset and packetcapture: one binary by many names.
IPTABLES_LINKS := pcn-ip6tables pcn-iptables-save pcn-ip6tables-save pcn-iptables-restore pcn-ip6tables-restore \
	pcn-iptables-import pcn-iptables-init pcn-iptables-init-xdp pcn-iptables-clean pcn-ipset pcn-packetcapture

build: generate ## build bin/polycubed, bin/polycubectl, bin/pcn-iptables, bin/polycube-upf and bin/polycube-ndpi
	CGO_ENABLED=1 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/polycubed ./cmd/polycubed
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w $(LDFLAGS)" -o bin/polycubectl ./cmd/polycubectl
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w $(LDFLAGS)" -o bin/pcn-iptables ./cmd/pcn-iptables
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w $(LDFLAGS)" -o bin/polycube-upf ./cmd/polycube-upf
	CGO_ENABLED=1 $(GO) build -trimpath -ldflags "-s -w $(LDFLAGS)" -o bin/polycube-ndpi ./cmd/polycube-ndpi
	@for link in $(IPTABLES_LINKS); do ln -sf pcn-iptables bin/$$link; done

python: deps generate ## build the Python SDK and the services written in it, in .cache/python
	@scripts/python.sh

fmt: deps ## format Go and C sources in place
	gofmt -s -w .
	$(if $(BPF_DIRS),find $(BPF_DIRS) -name '*.[ch]' -print0 | xargs -0r clang-format -i)

lint: deps-lint generate ## run linters; check formats, models, scripts and house rules
	scripts/lint.sh
	$(GO) test -count=1 ./test/lint/...

bpffs:
	@scripts/bpffs.sh

include test/test.mk
include test/kernels/kernels.mk

soak: build python bpffs deps-openapi deps-monitoring deps-captures ## run the long forms of the tests (POLYCUBE_SOAK=1)
	@scripts/baseline.sh >/dev/null || [ $$? = 3 ]
	POLYCUBE_SOAK=1 $(GO) test -timeout 6h $(TEST_FLAGS) ./...
	$(GO) test -race -timeout 1h -count=1 ./internal/datapath/... # the data plane's Go code
	@$(MAKE) test-young
	@$(MAKE) test-fresh
	@$(MAKE) test-kernels test-kernels-arm64 test-powercut

include scripts/demo.mk
include examples/evnf/evnf.mk

# Go's preemption signals restart a test run of many packets.
bench: build bpffs deps-bench ## measure, compared with the kernel's own forwarding, in one run (BENCH=filters: a group, with its peers)
	GODEBUG=asyncpreemptoff=1 $(GO) run ./test/perf/cmd/bench $(if $(BENCH),-group $(BENCH)) $(BENCH_FLAGS)

docs: deps ## build docs/reference from the models
	scripts/reference.sh docs/reference

reference: ## write docs/reference from the models and the comments in the headers
	@$(GO) run ./test/lint/cmd/reference

proto: deps-lint ## generate the Go code of the service protocol (api/)
	@scripts/proto.sh

new-cube: ## scaffold cubes/NAME (NAME=x; TRANSPARENT=1 for one without ports)
	@$(GO) run ./scripts/newcube $(if $(TRANSPARENT),-transparent) -- '$(NAME)'

new-vnf: ## scaffold a hybrid network function in cubes/NAME (NAME=x MODE=proactive|reactive|offloading)
	@$(GO) run ./scripts/newcube -vnf '$(MODE)' -- '$(NAME)'

# LANG also is a variable of the environment, which says nothing about a service.
new-service: ## scaffold an external service in DIR (NAME=x LANG=go|python; TRANSPARENT=1 for one without ports)
	@$(GO) run ./scripts/newcube -service '$(if $(filter command,$(origin LANG)),$(LANG))' -dir '$(DIR)' \
		-prefix '$(PREFIX)' $(if $(TRANSPARENT),-transparent) -- '$(NAME)'

include deploy/install.mk

clean: ## remove build results (installed tools under .cache stay)
	rm -rf bin coverage.out
	$(if $(BPF_DIRS),find $(BPF_DIRS) -name '*.tc.o' -delete -o -name '*.xdp.o' -delete)
