# SPDX-License-Identifier: Apache-2.0
#
# Installing and uninstalling: included by the Makefile.

.PHONY: uninstall

# What authors of external services need: headers, models, and the sources of the SDKs, in Go those of the packages that a
# service imports.
HEADERS := $(patsubst bpf/include/%,%,$(wildcard bpf/include/pcn/*.h))
MODELS  := $(notdir $(wildcard yang/*.yang))
GO_SDK  := go.mod go.sum $(filter-out %_test.go,$(wildcard $(addsuffix /*.go,api/polycube/service/v1 bucket cube \
	cube/origins cube/vlan flow inet ring sketch sdk/go wire)))
PYTHON_SDK := pyproject.toml setup.py README.md $(patsubst sdk/python/%,%,$(wildcard sdk/python/polycube/*.py \
	sdk/python/polycube/py.typed sdk/python/polycube/_api/*.py))
SHARE   := $(PREFIX)/share/polycube
# They are next to the module that they share, with links in bin.
DYNMON  := dynmon_injector.py dynmon_extractor.py

# The destinations of make install: one line per file, which uninstall removes.
UNIT_DIR := $(PREFIX)/lib/systemd/system
INSTALLED = $(PREFIX)/sbin/polycubed $(PREFIX)/bin/polycubectl $(UNIT_DIR)/polycubed.service \
	$(PREFIX)/lib/sysusers.d/polycube.conf $(PREFIX)/lib/tmpfiles.d/polycube.conf \
	$(PREFIX)/share/bash-completion/completions/polycubectl $(PREFIX)/share/zsh/site-functions/_polycubectl \
	$(PREFIX)/share/fish/vendor_completions.d/polycubectl.fish \
	$(addprefix $(PREFIX)/share/man/,man8/polycubed.8 man8/polycube-upf.8 man8/polycube-ndpi.8 man1/polycubectl.1 man1/polycube-cc.1) \
	$(PREFIX)/sbin/polycube-upf $(UNIT_DIR)/polycube-upf.service \
	$(PREFIX)/sbin/polycube-ndpi $(UNIT_DIR)/polycube-ndpi.service \
	$(addprefix $(PREFIX)/sbin/,pcn-iptables $(IPTABLES_LINKS)) \
	$(PREFIX)/bin/polycube-cc $(addprefix $(PREFIX)/include/polycube/,$(HEADERS)) \
	$(addprefix $(PREFIX)/bin/,$(DYNMON)) $(addprefix $(SHARE)/dynmon/,$(DYNMON) dynmon_client.py) \
	$(addprefix $(SHARE)/yang/,$(MODELS)) $(addprefix $(SHARE)/go/,$(GO_SDK)) $(SHARE)/polycube-python.tar.gz

install: build ## install programs, unit, completion, man pages and what services need under PREFIX (and DESTDIR)
	install -D -m 0755 bin/polycubed $(DESTDIR)$(PREFIX)/sbin/polycubed
	install -D -m 0755 bin/polycubectl $(DESTDIR)$(PREFIX)/bin/polycubectl
	install -D -m 0755 bin/polycube-upf $(DESTDIR)$(PREFIX)/sbin/polycube-upf
	install -D -m 0755 bin/polycube-ndpi $(DESTDIR)$(PREFIX)/sbin/polycube-ndpi
	install -D -m 0755 bin/pcn-iptables $(DESTDIR)$(PREFIX)/sbin/pcn-iptables
	@for link in $(IPTABLES_LINKS); do ln -sf pcn-iptables $(DESTDIR)$(PREFIX)/sbin/$$link; done
	@for unit in polycubed polycube-upf polycube-ndpi; do install -D -m 0644 deploy/$$unit.service $(DESTDIR)$(UNIT_DIR)/$$unit.service; \
		sed -i 's|/usr/local|$(PREFIX)|' $(DESTDIR)$(UNIT_DIR)/$$unit.service; done
	install -D -m 0644 deploy/polycube.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/polycube.conf
	install -D -m 0644 deploy/polycube.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/polycube.conf
	install -D -m 0644 internal/cli/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/polycubectl
	install -D -m 0644 internal/cli/completion.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_polycubectl
	install -D -m 0644 internal/cli/completion.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/polycubectl.fish
	install -D -m 0644 deploy/polycubed.8 $(DESTDIR)$(PREFIX)/share/man/man8/polycubed.8
	install -D -m 0644 deploy/polycube-upf.8 $(DESTDIR)$(PREFIX)/share/man/man8/polycube-upf.8
	install -D -m 0644 deploy/polycube-ndpi.8 $(DESTDIR)$(PREFIX)/share/man/man8/polycube-ndpi.8
	install -D -m 0644 deploy/polycubectl.1 $(DESTDIR)$(PREFIX)/share/man/man1/polycubectl.1
	install -D -m 0644 deploy/polycube-cc.1 $(DESTDIR)$(PREFIX)/share/man/man1/polycube-cc.1
	install -D -m 0755 deploy/polycube-cc $(DESTDIR)$(PREFIX)/bin/polycube-cc
	@for f in $(DYNMON); do install -D -m 0755 deploy/$$f $(DESTDIR)$(SHARE)/dynmon/$$f; \
		ln -sf $(SHARE)/dynmon/$$f $(DESTDIR)$(PREFIX)/bin/$$f; done
	install -D -m 0644 deploy/dynmon_client.py $(DESTDIR)$(SHARE)/dynmon/dynmon_client.py
	@cd bpf/include && for f in $(HEADERS); do install -D -m 0644 $$f $(DESTDIR)$(PREFIX)/include/polycube/$$f; done
	@cd yang && for f in $(MODELS); do install -D -m 0644 $$f $(DESTDIR)$(SHARE)/yang/$$f; done
	@for f in $(GO_SDK); do install -D -m 0644 $$f $(DESTDIR)$(SHARE)/go/$$f; done
	@tar -czf $(DESTDIR)$(SHARE)/polycube-python.tar.gz --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner \
		--transform='s|^|polycube/|' -C sdk/python $(PYTHON_SDK) -C $(CURDIR)/api/polycube/service/v1 service.proto
	@chmod 0644 $(DESTDIR)$(SHARE)/polycube-python.tar.gz
	install -d -m 0755 $(DESTDIR)/etc/polycube

# Configuration and state stay: they belong to the administrator. Directories stay too, except our own and those of a
# staged tree.
uninstall: ## remove what make install put there
	rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	@rmdir --ignore-fail-on-non-empty $(DESTDIR)/etc/polycube 2>/dev/null || true
	@if [ -n "$(DESTDIR)" ]; then cd "$(DESTDIR)" && \
		rmdir -p --ignore-fail-on-non-empty $(patsubst /%,%,$(sort $(dir $(INSTALLED)))) etc 2>/dev/null || true; \
	else for d in $(wildcard $(SHARE) $(PREFIX)/include/polycube); do find $$d -depth -type d -empty -delete; done; fi
