// SPDX-License-Identifier: Apache-2.0

// Rules of a host, as its own programs print them, imported into the cube iptables.

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostRules are rules that a host has in iptables, one of which the cube has not.
const hostRules = `
	iptables-nft -P INPUT DROP
	iptables-nft -N web
	iptables-nft -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
	iptables-nft -A INPUT -p tcp -m tcp --dport 7000 -j web
	iptables-nft -A INPUT -p tcp -m recent --name seen --rcheck -j DROP
	iptables-nft -A web -s 10.0.0.0/24 -j ACCEPT
	iptables-nft -t nat -A POSTROUTING -o wan0 -j MASQUERADE
	ip6tables-nft -A INPUT -p ipv6-icmp -j ACCEPT
`

// hostTables are rules that a host has in nftables.
const hostTables = `table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state vmap { established : accept, related : accept, invalid : drop }
		iifname "lan0" meta l4proto { tcp, udp } th dport { 7001, 7002 } counter accept
		ct count over 20 drop
	}
}
`

// TestRulesOfAHostAreImported: those of iptables-save and ip6tables-save in one file, then those of nft. The cube filters by
// them, reports what it has not, and what cannot be read changes nothing.
func TestRulesOfAHostAreImported(t *testing.T) {
	t.Parallel()
	needs(t, "iptables-nft")
	needs(t, "nft")
	d := start(t)
	lan, _ := d.betweenNetworks()
	for _, port := range []string{"7000", "7001"} {
		d.lab.AnswerLines("10.0.0.1:"+port, sender)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "tables.nft"), []byte(hostTables), 0o600); err != nil {
		t.Fatal(err)
	}
	// The host's own rules live in a namespace of their own, so that the cube alone decides here.
	script := strings.NewReplacer("DIR", d.dir, "RULES", hostRules).Replace(`exec 2>&1
		set -e
		cd DIR
		unshare -n bash -ec 'RULES
			iptables-nft-save > saved
			ip6tables-nft-save >> saved
			nft flush ruleset
			nft -f tables.nft
			nft -j list ruleset > tables.json'
		pcn-iptables-init
		pcn-iptables -A INPUT -s 192.0.2.1 -j DROP
		pcn-iptables-import --dry-run saved && exit 1 || echo "status $?"
		pcn-iptables -S
		pcn-iptables-import < saved && exit 1 || echo "status $?"
		pcn-iptables-save
		pcn-ip6tables-save`)
	run := func(script string) string {
		t.Helper()
		out, err := d.shell(script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	out := run(script)
	before, after, _ := strings.Cut(out, "\nimported ")
	contains(t, before, "would import 4 of 6 rules; 2 left out\nstatus 3\n", "-A INPUT -s 192.0.2.1/32 -j DROP",
		"nat: -A POSTROUTING -o wan0 -j MASQUERADE", "addresses are translated by the cube nat", "packets are not changed",
		`-m recent`, `the match "recent" is not supported`, "packets may pass")
	contains(t, after, "4 of 6 rules; 2 left out\nstatus 3\n", ":INPUT DROP", "-A INPUT -p tcp -m tcp --dport 7000 -j web\n",
		"-A web -s 10.0.0.0/24 -j ACCEPT\n", "-A INPUT -p ipv6-icmp -j ACCEPT\n")
	if strings.Contains(after, "192.0.2.1") {
		t.Errorf("a rule of before is still there:\n%s", after)
	}
	reaches := func(port int, want bool) {
		t.Helper()
		if err := dials(lan, "10.0.0.1", port); (err == nil) != want {
			t.Errorf("port %d: %v", port, err)
		}
	}
	reaches(7000, true)
	reaches(7001, false)

	out = run("cd " + d.dir + ` && { pcn-iptables-import --json tables.json; echo "status $?"; head -c 900 tables.json | pcn-iptables-import; echo "status $?"
		pcn-iptables-import --help; pcn-iptables-import -x; echo "status $?"; pcn-iptables -S; }`)
	contains(t, out, `"rules": 3`, `"imported": 2`, `"rule": "ct count {`, `"without-it": "packets may pass"`, "\nstatus 3\n",
		"Usage: iptables-import", "\nstatus 2\n", "-A INPUT -i lan0 -p udp -m multiport --dports 7001,7002 -j ACCEPT")
	reaches(7000, false)
	reaches(7001, true)
}
