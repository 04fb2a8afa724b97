# SPDX-License-Identifier: Apache-2.0
#
# Checks of examples that nothing here can run: included by the Makefile. CI does not run them, since Heat takes minutes to
# install.

.PHONY: check-evnf

check-evnf: ## check the OpenStack and libvirt examples with Heat, cloud-init and virt-xml-validate
	@scripts/deps.sh lint
	@scripts/deps.sh evnf
	examples/evnf/check.sh
