// SPDX-License-Identifier: Apache-2.0

package firewall_test

// Firewalls on all ports of a cube.

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/test/bpftest"
)

// portsWithPeers makes pairs of netdevs, and returns the ports of a cube that they are the peers of.
func portsWithPeers(l *bpftest.Lab, n int) (ports []string) {
	l.Must(func() error {
		for i := range n / 2 {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = fmt.Sprint("d", i)
			peer := fmt.Sprint("e", i)
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer}); err != nil {
				return fmt.Errorf("make %s: %w", attrs.Name, err)
			}
			for _, dev := range []string{attrs.Name, peer} {
				link, err := netlink.LinkByName(dev)
				if err == nil {
					err = netlink.LinkSetUp(link)
				}
				if err != nil {
					return fmt.Errorf("set up %s: %w", dev, err)
				}
				ports = append(ports, dev)
			}
		}
		return nil
	})
	return ports
}

// TestTimedFirewallsOnAllPortsOfACube attaches a firewall to each port, and prints how long it takes. Every attachment
// loads the programs of the whole cube again, with those of all its firewalls, so the last ones take longer than the
// first; the test bounds how much.
func TestTimedFirewallsOnAllPortsOfACube(t *testing.T) {
	count := 30
	if os.Getenv("POLYCUBE_SOAK") != "" {
		count = 500
	}
	// As the daemon begins: it inlines programs later, in the background.
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Mode: "call"})
	ports := portsWithPeers(l, count)
	var list []string
	for _, p := range ports {
		list = append(list, fmt.Sprintf(`{"name":%q,"peer":%q}`, p, p))
	}
	l.Create("simplebridge", "br", `{"ports":[`+strings.Join(list, ",")+`]}`)
	var create, attach []time.Duration
	for i, p := range ports {
		begin := time.Now()
		l.Create("firewall", fmt.Sprint("fw", i), `{"chain":[{"name":"INGRESS","default":"DROP"}]}`)
		created := time.Now()
		l.Attach(fmt.Sprint("fw", i), "br:"+p)
		create, attach = append(create, created.Sub(begin)), append(attach, time.Since(created))
	}
	const some = 10
	for what, all := range map[string][]time.Duration{"creating": create, "attaching": attach} {
		first, last := all[:some], all[count-some:]
		slices.Sort(first)
		slices.Sort(last)
		t.Logf("%s a firewall: %v for the first %d, %v for the last of %d", what, first[some/2], some, last[some/2], count)
		if last[some/2] > 6*first[some/2] {
			t.Errorf("%s one of %d firewalls takes %v, the first %v", what, count, last[some/2], first[some/2])
		}
	}
}
