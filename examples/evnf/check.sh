#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the files for clouds and hypervisors, which nothing here can run: the Heat template with Heat's own code, its user
# data with cloud-init and the shell, the domains and networks of libvirt with virt-xml-validate. `make check-evnf` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
heat=$PWD/.cache/heat
example=examples/evnf/traffic-accounting

die() {
	echo "check-evnf: $*" >&2
	exit 1
}

# cloud_init FILE checks user data against the schema.
cloud_init() {
	PYTHONPATH=$heat/cloud-init/usr/lib/python3/dist-packages "$heat/bin/python" -W ignore -m cloudinit.cmd.main schema --config-file "$1"
}

# refused WHAT COMMAND... succeeds if a command fails: a check that finds nothing checks nothing.
refused() {
	! "${@:2}" >/dev/null 2>&1 || die "not found: $1"
	echo "refused, as it should be: $1"
}

# content FILE PATH prints what user data writes into a file.
content() {
	"$heat/bin/python" -c 'import sys, yaml
(found,) = [f for f in yaml.safe_load(open(sys.argv[1]))["write_files"] if f["path"] == sys.argv[2]]
sys.stdout.write(found["content"])' "$1" "$2"
}

# user_data NAME checks what a machine is started with.
user_data() {
	local file=$dir/$1.yaml
	cloud_init "$file"
	content "$file" /var/lib/cloud/scripts/per-boot/evnf >"$dir/script"
	shellcheck -s sh "$dir/script" || die "$1: the script of its user data"
	content "$file" "/etc/polycube/$1.yaml" | diff - "$example/xdp/$1.yaml" || die "$1: its topology is not $example/xdp/$1.yaml"
	sed '/^packages:/,/^[a-z_]*:/c packages: 1' "$file" >"$dir/wrong"
	refused "user data of the wrong type" cloud_init "$dir/wrong"
}

# libvirt FILE checks a domain or network.
libvirt() {
	virt-xml-validate "$1"
	sed 's/<name>/<nam>/; s/<\/name>/<\/nam>/' "$1" >"$dir/wrong"
	refused "an element that there is not" virt-xml-validate "$dir/wrong"
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$heat/bin/python" -W ignore $example/cloud/check.py $example/cloud/chain.yaml "$dir"
user_data firewall
user_data accounting
content "$dir/firewall.yaml" /etc/polycube/firewall.rules | diff - $example/firewall.rules || die "firewall: its rules are not $example/firewall.rules"
for file in "$example"/libvirt/*.xml; do libvirt "$file"; done
echo "check-evnf: all files are valid"
