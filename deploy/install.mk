# SPDX-License-Identifier: Apache-2.0
#
# Installing and uninstalling: included by the Makefile.

.PHONY: uninstall

# The destinations of make install: one line per file, which uninstall removes.
UNIT_DIR := $(PREFIX)/lib/systemd/system
INSTALLED = $(PREFIX)/sbin/polycubed $(PREFIX)/bin/polycubectl $(UNIT_DIR)/polycubed.service \
	$(PREFIX)/lib/sysusers.d/polycube.conf $(PREFIX)/lib/tmpfiles.d/polycube.conf \
	$(PREFIX)/share/bash-completion/completions/polycubectl $(PREFIX)/share/zsh/site-functions/_polycubectl \
	$(PREFIX)/share/fish/vendor_completions.d/polycubectl.fish \
	$(PREFIX)/share/man/man8/polycubed.8 $(PREFIX)/share/man/man1/polycubectl.1

install: build ## install programs, unit, completion and man pages under PREFIX (and DESTDIR)
	install -D -m 0755 bin/polycubed $(DESTDIR)$(PREFIX)/sbin/polycubed
	install -D -m 0755 bin/polycubectl $(DESTDIR)$(PREFIX)/bin/polycubectl
	install -D -m 0644 deploy/polycubed.service $(DESTDIR)$(UNIT_DIR)/polycubed.service
	sed -i 's|/usr/local|$(PREFIX)|' $(DESTDIR)$(UNIT_DIR)/polycubed.service
	install -D -m 0644 deploy/polycube.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/polycube.conf
	install -D -m 0644 deploy/polycube.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/polycube.conf
	install -D -m 0644 internal/cli/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/polycubectl
	install -D -m 0644 internal/cli/completion.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_polycubectl
	install -D -m 0644 internal/cli/completion.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/polycubectl.fish
	install -D -m 0644 deploy/polycubed.8 $(DESTDIR)$(PREFIX)/share/man/man8/polycubed.8
	install -D -m 0644 deploy/polycubectl.1 $(DESTDIR)$(PREFIX)/share/man/man1/polycubectl.1
	install -d -m 0755 $(DESTDIR)/etc/polycube

# Configuration and state stay: they belong to the administrator. Directories stay too, except those of a staged tree.
uninstall: ## remove what make install put there
	rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	@rmdir --ignore-fail-on-non-empty $(DESTDIR)/etc/polycube 2>/dev/null || true
	@[ -z "$(DESTDIR)" ] || ! cd "$(DESTDIR)" || \
		rmdir -p --ignore-fail-on-non-empty $(patsubst /%,%,$(sort $(dir $(INSTALLED)))) etc 2>/dev/null || true
