// SPDX-License-Identifier: Apache-2.0

// Package netfilter provides a Linux router with nftables and nf_conntrack, which tests compare cubes with: it forwards
// whatever comes in from one of two hosts to the other.
package netfilter

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// Router is the router. Its devices are Devices, its hosts have no addresses.
type Router struct {
	*netns.Lab
	*Socket
	Hosts [2]*netns.Node
	Wires [2]*netns.Raw
}

// Devices are the devices of a router.
var Devices = [2]string{"veth0", "veth1"}

// NewRouter creates a router. It skips the test if there is no nftables or if its kernel does not track connections.
func NewRouter(t testing.TB, o conntrack.Options, timeouts conntrack.Timeouts) *Router {
	t.Helper()
	netns.NeedRoot(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nftables is not installed: there is nothing to compare with")
	}
	r := &Router{Lab: netns.NewLab(t, netns.WithIPv6())}
	for i, dev := range Devices {
		r.Hosts[i] = r.Host(dev, "")
		r.Wires[i] = netns.OpenRaw(t, r.Hosts[i], netns.Inner)
	}
	r.Needs(t, "ct state new accept")
	// No address is the router's, so every packet is forwarded.
	r.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.rp_filter=0")
	for i, dev := range Devices {
		other := Devices[1-i]
		table := fmt.Sprint(100 + i)
		r.Run("sysctl", "-qw", "net.ipv4.conf."+dev+".rp_filter=0")
		for version, gateway := range map[string]string{"-4": "192.0.2.1", "-6": "fe80::1"} {
			r.Run("ip", version, "neigh", "replace", gateway, "lladdr", r.Hosts[1-i].MAC.String(), "dev", other)
			r.Run("ip", version, "route", "add", "default", "via", gateway, "dev", other, "onlink", "table", table)
			r.Run("ip", version, "rule", "add", "iif", dev, "lookup", table)
		}
	}
	r.Track(o)
	list := []string{"-qw"}
	for timeout, name := range sysctls {
		list = append(list, fmt.Sprintf("net.netfilter.nf_conntrack_%s=%d", name, timeouts[timeout]/time.Second))
	}
	r.Run("sysctl", list...)
	r.Socket = open(t, r)
	return r
}

// Track sets how TCP is tracked.
func (r *Router) Track(o conntrack.Options) {
	list := []string{"-qw", fmt.Sprintf("net.netfilter.nf_conntrack_tcp_max_retrans=%d", o.MaxRetrans)}
	for name, on := range map[string]bool{"tcp_be_liberal": o.Liberal, "tcp_loose": o.PickUp} {
		list = append(list, fmt.Sprintf("net.netfilter.nf_conntrack_%s=%d", name, map[bool]int{true: 1}[on]))
	}
	r.Run("sysctl", list...)
}

// sysctls are the names of the timeouts.
var sysctls = map[conntrack.Timeout]string{
	conntrack.UDP: "udp_timeout", conntrack.UDPStream: "udp_timeout_stream", conntrack.ICMP: "icmp_timeout",
	conntrack.Other: "generic_timeout", conntrack.TCPSynSent: "tcp_timeout_syn_sent", conntrack.TCPSynRecv: "tcp_timeout_syn_recv",
	conntrack.TCPEstablished: "tcp_timeout_established", conntrack.TCPFinWait: "tcp_timeout_fin_wait",
	conntrack.TCPCloseWait: "tcp_timeout_close_wait", conntrack.TCPLastAck: "tcp_timeout_last_ack",
	conntrack.TCPTimeWait: "tcp_timeout_time_wait", conntrack.TCPClose: "tcp_timeout_close",
	conntrack.TCPUnacknowledged: "tcp_timeout_unacknowledged", conntrack.TCPMaxRetrans: "tcp_timeout_max_retrans",
}

// Load carries out commands of nft.
func (r *Router) Load(commands string) error {
	cmd := r.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(commands)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %.4000s", err, out)
	}
	return nil
}

// Needs skips the test if the kernel has not what a rule needs.
func (r *Router) Needs(t testing.TB, rule string) {
	t.Helper()
	err := r.Load("table inet probe { counter some {}; chain c { type filter hook forward priority 0; " + rule + "; }; }; delete table inet probe")
	if err != nil {
		t.Skipf("nftables has no %s on this machine: %v", rule, err)
	}
}

// Send sends a frame from a host, 0 or 1.
func (r *Router) Send(from uint8, frame []byte) error { return r.Wires[from].Send(frame) }

// Receive returns the first frame for which filter is true at a host.
func (r *Router) Receive(at uint8, filter func([]byte) bool) ([]byte, error) {
	frame, err := r.Wires[at].Recv(filter, pace.Stretch(10*time.Second))
	if err != nil {
		return nil, fmt.Errorf("nothing comes out of the router: %w", err)
	}
	return frame, nil
}
