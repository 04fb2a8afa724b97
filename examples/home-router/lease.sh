#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# dhclient calls this for events of its lease: it sets the interface's address and the default route to the lease's
# router. DNS is left alone, because the examples must not change the host's.
set -eu
: "${interface:?is set by dhclient}" "${new_ip_address:=}" "${new_subnet_mask:=}"
case "${reason:-}" in
PREINIT) ip link set "$interface" up ;;
BOUND | RENEW | REBIND | REBOOT)
	ip addr replace "$new_ip_address/$new_subnet_mask" dev "$interface"
	[ -z "${new_routers:-}" ] || ip route replace default via "${new_routers%% *}" dev "$interface"
	;;
EXPIRE | FAIL | RELEASE | STOP) ip addr flush dev "$interface" scope global ;;
esac
