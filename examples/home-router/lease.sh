#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What dhclient calls when something happens to its lease: the interface gets the address, and the default route leads to
# the router of the lease. Names are left alone, because the examples must not touch those of the machine.
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
