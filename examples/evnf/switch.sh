# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The switch between the machines of an example, in a namespace of its own: a Linux bridge, a bridge of Polycube with a
# daemon of its own, or Open vSwitch in user space. Sourced after scripts/lab.sh.
#
# shellcheck disable=SC2154 # variables of scripts/lab.sh

# switch_between KIND MACHINE NETDEV... connects a netdev of each machine to a switch.
switch_between() {
	local kind=$1 switch=${machines[0]}-switch port=0
	shift
	case $kind in
	polycube) new_machine "$switch" ;;
	*)
		namespace "$switch"
		hosts+=("$switch")
		;;
	esac
	while [ $# -gt 0 ]; do
		port=$((port + 1))
		ip -n "$switch" link add "port$port" type veth peer name "$2" netns "$1"
		ip -n "$switch" link set "port$port" up
		ip -n "$1" link set "$2" up
		[ "$kind" != ovs ] || plain_frames "$1" "$2"
		shift 2
	done
	"switch_$kind" "$switch" $port
}

# switch_linux NAMESPACE PORTS makes a bridge of the kernel.
switch_linux() {
	local n
	ip -n "$1" link add br0 type bridge
	for ((n = 1; n <= $2; n++)); do ip -n "$1" link set "port$n" master br0; done
	ip -n "$1" link set br0 up
}

# switch_polycube does the same with a cube.
switch_polycube() {
	local n
	on_machine "$1"
	start_daemon
	ctl simplebridge add sw
	for ((n = 1; n <= $2; n++)); do ctl sw ports add "p$n" peer="port$n"; done
}

# switch_ovs does it with Open vSwitch, whose packets go through user space: no kernel module is needed.
switch_ovs() {
	local n dir=$state/ovs
	command -v ovs-vswitchd >/dev/null || die "ovs-vswitchd is missing: install openvswitch-switch"
	mkdir "$dir"
	export OVS_RUNDIR=$dir OVS_LOGDIR=$dir OVS_DBDIR=$dir OVS_SYSCONFDIR=$dir
	quietly ovsdb-tool create "$dir/conf.db" /usr/share/openvswitch/vswitch.ovsschema
	in_background "$1" ovsdb-server "$dir/conf.db" --remote="punix:$dir/db.sock" --unixctl="$dir/db.ctl"
	eventually 30 "the database of Open vSwitch is there" test -S "$dir/db.sock"
	vsctl --no-wait init
	in_background "$1" ovs-vswitchd "unix:$dir/db.sock" --unixctl="$dir/switch.ctl" --disable-system
	vsctl add-br br0 -- set bridge br0 datapath_type=netdev
	for ((n = 1; n <= $2; n++)); do vsctl add-port br0 "port$n"; done
}

vsctl() { quietly ovs-vsctl --timeout="$patience" --retry --db="unix:$state/ovs/db.sock" "$@"; }

# quietly COMMAND... shows the output of a command only if it fails.
quietly() {
	local said
	said=$("$@" 2>&1) || die "$* ended with $?: $said"
}

# switched PORT prints how many packets the switch has sent to a port.
switched() { ip -n "${machines[0]}-switch" -s -j link show "port$1" | jq -r '.[0].stats64.tx.packets'; }

# plain_frames MACHINE NETDEV has a netdev send frames as they would be on a cable, with checksums and no larger than its
# MTU: Open vSwitch in user space takes no others.
plain_frames() { quietly inside "$1" ethtool -K "$2" tx off tso off gso off; }
