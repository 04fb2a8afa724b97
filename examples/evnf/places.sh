# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The arguments of an example, which say where its functions are: on one machine or on two, at which hook, in containers or
# not. Sourced after scripts/lab.sh, with the folder of the example in $here.
#
# shellcheck disable=SC2154,SC2034 # variables of scripts/lab.sh and of the example

count=1 kind=linux hook=tc containers='' keep=''
with_switch='' # if there is a switch on one machine, too
contained="each daemon in a container of its own, by runc"

usage() {
	cat <<-END
		usage: $here/run.sh [--machines 1|2] [--switch linux|polycube|ovs] [--hook tc|xdp]
		       [--containers] [--keep]

		  --machines N   both functions on one machine (default), or each on its own
		  --switch KIND  what connects ${with_switch:-two machines}: a Linux bridge (default), a bridge of
		                 Polycube, or Open vSwitch in user space
		  --hook HOOK    where the functions of two machines are: at TC (default), or at XDP in
		                 the driver
		  --containers   $contained
		  --keep         leave everything running until Ctrl-C
	END
}

# wrong MESSAGE reports a mistake in the arguments.
wrong() {
	printf 'run.sh: %s\n' "$1" >&2
	usage >&2
	exit 2
}

parse() {
	local switch='' where=''
	while [ $# -gt 0 ]; do
		case $1 in
		--machines | --switch | --hook)
			[ $# -ge 2 ] || wrong "$1 needs a value"
			case $1 in --machines) count=$2 ;; --switch) switch=$2 ;; --hook) where=$2 ;; esac
			shift
			;;
		--containers) containers=yes ;;
		--keep) keep=yes ;;
		-h | --help) usage && exit 0 ;;
		*) wrong "unknown argument $1" ;;
		esac
		shift
	done
	case $count in 1 | 2) ;; *) wrong "--machines $count: 1 or 2" ;; esac
	case $switch in '' | linux | polycube | ovs) ;; *) wrong "--switch $switch: linux, polycube or ovs" ;; esac
	[ -z "$switch" ] || [ -n "$with_switch" ] || [ "$count" = 2 ] || wrong "--switch connects two machines: add --machines 2"
	case $where in '' | tc | xdp) ;; *) wrong "--hook $where: tc or xdp" ;; esac
	[ -z "$where" ] || [ "$count" = 2 ] || wrong "--hook is for two machines: add --machines 2"
	kind=${switch:-$kind} hook=${where:-$hook}
}

# named MACHINE NETDEV NAME gives a netdev the name that it has in the topologies.
named() {
	ip -n "$1" link set "$2" down
	ip -n "$1" link set "$2" name "$3" up
}

# contain NAME PROGRAM [ARGUMENT...] runs a program of the machine in a container, as a child of the script.
contain() {
	examples/evnf/bundle.sh "$state/$1" "$machine" "$instance" "${@:2}"
	runc --root "$state/runc" run --bundle "$state/$1" "$1" </dev/null >>"$state/log" 2>&1 &
}

# in_containers has daemons started in containers, if that is wanted.
in_containers() {
	[ -n "$containers" ] || return 0
	command -v runc >/dev/null || die "runc is missing: install it"
	# shellcheck disable=SC2317 # scripts/lab.sh calls it
	launch() { contain "$instance" polycubed; }
}
