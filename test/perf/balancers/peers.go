// SPDX-License-Identifier: Apache-2.0

package balancers

// The peers in the kernel.

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

// list joins what each number of a range is.
func list(n int, of func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = of(i)
	}
	return strings.Join(all, ",\n")
}

// match is the set of services, and what finds a packet for one of them.
func (l load) match() (set, match string) {
	set = "set services {\ntype ipv4_addr;\nelements = { " + list(l.services, func(i int) string { return l.service(i).String() }) + " }\n}\n"
	return set, fmt.Sprintf("ip daddr @services udp dport %d", servicePort)
}

// choice is what chooses one of the servers, by a hash of the flow.
func (l load) choice(to func(i int) string) string {
	return fmt.Sprintf("jhash ip saddr . udp sport mod %d map { %s }", l.servers, list(l.servers, func(i int) string { return fmt.Sprintf("%d : %s", i, to(i)) }))
}

func (l load) address(i int) string { return l.server(i).String() }

// nftDSR rewrites MAC addresses before the kernel's stack.
func (l load) nftDSR(_ *lab.Rig, _ *Bench, w *lab.Filtered) error {
	set, match := l.match()
	return contest.Fed(w.Machine.Command("nft", "-f", "-"), fmt.Sprintf(
		"table netdev bench {\n%schain in {\ntype filter hook ingress device %q priority 0;\n%s ether daddr set %s fwd to %q\n}\n}\n",
		set, lab.In, match, l.choice(func(i int) string { return l.mac(i).String() }), lab.Out))
}

// nftDNAT translates with connection tracking.
func (l load) nftDNAT(rig *lab.Rig, _ *Bench, w *lab.Filtered) error {
	set, match := l.match()
	err := contest.Fed(w.Machine.Command("nft", "-f", "-"), fmt.Sprintf(
		"table ip bench {\n%schain in {\ntype nat hook prerouting priority dstnat;\n%s dnat to %s\n}\n}\n", set, match, l.choice(l.address)))
	if err != nil {
		return err
	}
	return contest.TrackWell(rig, w)
}

// nftStateless translates each packet by itself. The way back would need a rule of its own.
func (l load) nftStateless(_ *lab.Rig, _ *Bench, w *lab.Filtered) error {
	set, match := l.match()
	return contest.Fed(w.Machine.Command("nft", "-f", "-"), fmt.Sprintf(
		"table ip bench {\n%schain in {\ntype filter hook prerouting priority raw;\n%s ip daddr set %s notrack\n}\n}\n", set, match, l.choice(l.address)))
}

// endpoint is server j of service i, of which kube-proxy knows that they are different ones.
func (l load) endpoint(i, j int) string { return l.server(i*l.servers + j).String() }

// kubeNFT are the rules as kube-proxy writes them for nftables: a map of services, and a chain for each and each endpoint.
func (l load) kubeNFT(rig *lab.Rig, _ *Bench, w *lab.Filtered) error {
	var b strings.Builder
	b.WriteString("table ip kube-proxy {\nchain mark-for-masquerade { meta mark set meta mark or 0x4000; }\n" +
		"chain masquerading { meta mark and 0x4000 == 0 return; masquerade fully-random; }\n")
	for i := range l.services {
		for j := range l.servers {
			fmt.Fprintf(&b, "chain endpoint-%d-%d { ip saddr %s jump mark-for-masquerade; meta l4proto udp dnat to %s:%d; }\n",
				i, j, l.endpoint(i, j), l.endpoint(i, j), serverPort)
		}
		fmt.Fprintf(&b, "chain service-%d { numgen random mod %d vmap { %s }; }\n", i, l.servers,
			list(l.servers, func(j int) string { return fmt.Sprintf("%d : goto endpoint-%d-%d", j, i, j) }))
	}
	fmt.Fprintf(&b, "map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = { %s } }\n",
		list(l.services, func(i int) string {
			return fmt.Sprintf("%s . udp . %d : goto service-%d", l.service(i), servicePort, i)
		}))
	b.WriteString("chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }\n" +
		"chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }\n" +
		"chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }\n}\n")
	if err := contest.Fed(w.Machine.Command("nft", "-f", "-"), b.String()); err != nil {
		return err
	}
	return contest.TrackWell(rig, w)
}

// kubeIPT are the rules as kube-proxy writes them for iptables: a list of services, and a chain for each and each endpoint.
func (l load) kubeIPT(rig *lab.Rig, _ *Bench, w *lab.Filtered) error {
	var chains, rules strings.Builder
	chains.WriteString("*nat\n:PREROUTING ACCEPT\n:POSTROUTING ACCEPT\n:KUBE-SERVICES -\n:KUBE-POSTROUTING -\n:KUBE-MARK-MASQ -\n")
	rules.WriteString("-A PREROUTING -j KUBE-SERVICES\n-A POSTROUTING -j KUBE-POSTROUTING\n" +
		"-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000\n" +
		"-A KUBE-POSTROUTING -j MASQUERADE --random-fully\n-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000\n")
	for i := range l.services {
		service := fmt.Sprintf("KUBE-SVC-%016X", i)
		fmt.Fprintf(&chains, ":%s -\n", service)
		fmt.Fprintf(&rules, "-A KUBE-SERVICES -d %s/32 -p udp -m comment --comment \"ns/svc%d cluster IP\" -m udp --dport %d -j %s\n",
			l.service(i), i, servicePort, service)
		for j := range l.servers {
			end, to := fmt.Sprintf("KUBE-SEP-%016X", i*l.servers+j), l.endpoint(i, j)
			fmt.Fprintf(&chains, ":%s -\n", end)
			random := ""
			if rest := l.servers - j; rest > 1 {
				random = fmt.Sprintf("-m statistic --mode random --probability %.11f ", 1/float64(rest))
			}
			fmt.Fprintf(&rules, "-A %s -m comment --comment \"ns/svc%d -> %s:%d\" %s-j %s\n", service, i, to, serverPort, random, end)
			fmt.Fprintf(&rules, "-A %s -s %s/32 -m comment --comment \"ns/svc%d\" -j KUBE-MARK-MASQ\n", end, to, i)
			fmt.Fprintf(&rules, "-A %s -p udp -m comment --comment \"ns/svc%d\" -m udp -j DNAT --to-destination %s:%d\n", end, i, to, serverPort)
		}
	}
	err := contest.Fed(w.Machine.Command("iptables-legacy-restore"), chains.String()+rules.String()+"COMMIT\n")
	if err != nil {
		return err
	}
	return contest.TrackWell(rig, w)
}
