#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes an OCI runtime bundle of a network function: a root with polycubed, its programs beside it and their libraries, all
# from this machine, and a config.json. Any OCI runtime runs it, in a network namespace that exists already:
#
#   bundle.sh FOLDER NAMESPACE INSTANCE PROGRAM [ARGUMENT...]
#   runc run --bundle FOLDER NAME
#
# PROGRAM is polycubed or polycube-ndpi. A container of either sees the sockets and pins of all instances on the machine, and its
# named network namespaces, where the other ends of veth pairs are, but neither the machine's files nor its processes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage="usage: bundle.sh FOLDER NAMESPACE INSTANCE polycubed|polycube-ndpi [ARGUMENT...]"

die() {
	echo "bundle: $*" >&2
	exit 1
}

# put FILE [PATH] copies a program or library, and the libraries that it needs, into the root.
put() {
	local library
	install -D -m 0755 "$1" "$root${2:-$1}"
	while read -r library; do
		[ -e "$root$library" ] || install -D -m 0755 "$library" "$root$library"
	done < <(ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true)
}

# tables copies the programs of iptables that print the rules of the machine, for a function that reads them.
tables() {
	local multi link
	for multi in legacy nft; do
		[ -e /usr/sbin/xtables-$multi-multi ] || continue
		put /usr/sbin/xtables-$multi-multi
		for link in iptables-$multi-save ip6tables-$multi-save; do ln -s xtables-$multi-multi "$root/usr/sbin/$link"; done
	done
	for link in /usr/lib/*/xtables/*.so; do [ ! -e "$link" ] || put "$link"; done
}

# config writes config.json. The capabilities are those of the unit of the program, and CAP_NET_RAW for iptables-legacy.
config() {
	local args
	args=$(printf '%s\n' "${@:2}" | jq -R . | jq -s .)
	jq -n --arg netns "$1" --argjson args "$args" --arg run "/run/polycube" --arg state "$folder/state" '
	["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_CHROOT", "CAP_CHOWN",
	 "CAP_SETUID", "CAP_SETGID", "CAP_KILL"] as $capabilities |
	def bind($path; $from): {destination: $path, type: "bind", source: $from, options: ["rbind", "rw", "nosuid", "nodev", "noexec"]};
	def fresh($path; $kind): {destination: $path, type: $kind, source: $kind, options: ["nosuid", "nodev", "noexec"]};
	{
		ociVersion: "1.0.2",
		root: {path: "rootfs", readonly: true},
		hostname: "evnf",
		process: {
			terminal: false, user: {uid: 0, gid: 0}, cwd: "/", args: $args, noNewPrivileges: true,
			env: ["PATH=/usr/sbin:/usr/bin", "HOME=/tmp"],
			capabilities: {bounding: $capabilities, effective: $capabilities, permitted: $capabilities}
		},
		mounts: [
			fresh("/proc"; "proc"), fresh("/sys"; "sysfs"), fresh("/tmp"; "tmpfs"),
			{destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "noexec", "mode=755"]},
			bind("/sys/fs/bpf"; "/sys/fs/bpf"), bind($run; $run), bind("/var/lib/polycube"; $state),
			{destination: "/run/netns", type: "bind", source: "/run/netns", options: ["rbind", "ro", "rslave"]}
		],
		linux: {
			namespaces: [{type: "pid"}, {type: "ipc"}, {type: "uts"}, {type: "mount"}, {type: "network", path: $netns}],
			devices: [{path: "/dev/net/tun", type: "c", major: 10, minor: 200, fileMode: 438}],
			resources: {devices: ([{allow: false, access: "rwm"}] + [
				[1, 3], [1, 5], [1, 7], [1, 8], [1, 9], [5, 0], [10, 200] # those that every runtime creates, and TAP
				| {allow: true, type: "c", major: .[0], minor: .[1], access: "rw"}])}
		}
	}' >"$folder/config.json"
}

main() {
	[ $# -ge 4 ] || die "$usage"
	local namespace=/run/netns/$2 instance=$3 program=$4
	case $program in polycubed | polycube-ndpi) ;; *) die "$usage" ;; esac
	[ ! -e "$1" ] || die "$1 exists"
	case $2 in */*) die "namespace $2: a name of a namespace has no slash" ;; esac
	[ -e "$namespace" ] || die "there is no network namespace $2: ip netns add $2"
	[[ $instance =~ ^[a-z0-9-]+$ ]] || die "instance $instance: a name has small letters, digits and dashes"
	[ -x "bin/$program" ] || die "bin/$program is missing: run make build"
	mkdir -p "$1/rootfs" "$1/state" "/run/polycube/$instance"
	folder=$(realpath "$1") root=$(realpath "$1/rootfs")
	put "bin/$program" "/usr/sbin/$program"
	mkdir -p "$root"/{proc,sys,dev,tmp,run/polycube,run/netns,var/lib/polycube}
	shift 4
	if [ "$program" = polycubed ]; then
		tables
		config "$namespace" polycubed --configfile /dev/null --instance "$instance" --state-dir /var/lib/polycube \
			--run-dir "/run/polycube/$instance" "$@"
	else
		config "$namespace" polycube-ndpi --socket "/run/polycube/$instance/polycubed.sock" --bpffs "/sys/fs/bpf/polycube-$instance" \
			--control /tmp/ndpi.sock "$@"
	fi
	echo "bundle: $folder has $(du -sm "$folder" | cut -f1) MB"
}

main "$@"
