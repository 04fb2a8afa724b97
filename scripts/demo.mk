# SPDX-License-Identifier: Apache-2.0
#
# Live demonstrations, each on one machine: included by the Makefile.

.PHONY: demo demo-ddos demo-mgw

DEMO_FLAGS ?=

demo: build bpffs ## run two bridges, three hosts and a transparent cube, live
	scripts/demo.sh $(DEMO_FLAGS)

demo-ddos: build bpffs ## run a flood against a DDoS mitigator that finds the attacker, live
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/flood ./scripts/flood
	scripts/demo-ddos.sh $(DEMO_FLAGS)

demo-mgw: build bpffs ## run a UPF with an emulated core, base stations and phones, live
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/mobile ./test/ran/cmd/mobile
	scripts/demo-mgw.sh $(DEMO_FLAGS)
