// SPDX-License-Identifier: Apache-2.0

// A farm is a client and three servers behind a load balancer: lbrp on the wire between the client and the router of the
// servers, lbdsr on a bridge with all of them. Servers are processes, so that they can be killed.

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// balancer is how a farm differs by its load balancer. Addresses are of IPv4 and IPv6.
type balancer struct {
	service string
	vips    [2]string
	servers [2]string // with the number of the server
	shift   int       // what servers add to the ports of services
}

var (
	lbrp  = balancer{"lbrp", [2]string{"192.0.2.1", "2001:db8:ff::1"}, [2]string{"10.0.%d.2", "2001:db8:%d::2"}, 8000}
	lbdsr = balancer{"lbdsr", [2]string{"10.0.0.100", "2001:db8::100"}, [2]string{"10.0.0.1%d", "2001:db8::1%d"}, 0}
)

// farmService is a service of a farm, at an address of each family.
type farmService struct {
	port  int
	proto string
	lbrp  string // what it has with lbrp
	lbdsr string
}

const quicPort = 443

// farmServices are those of farmServer.
var farmServices = []farmService{
	{80, "TCP", `"select":"ROUND_ROBIN"`, `"select":"FLOW"`},
	{81, "TCP", `"select":"LEAST_CONNECTIONS"`, `"select":"FLOW"`},
	{53, "UDP", `"select":"MAGLEV"`, `"select":"FLOW"`},
	{quicPort, "UDP", `"select":"MAGLEV"`, `"select":"QUIC"`},
}

// farm is running.
type farm struct {
	*daemon
	balancer
	t        *testing.T
	services []farmService
	ports    *atomic.Int64 // local ones that were used
	client   *netns.Node
	hosts    [4]*netns.Node // by the number of the server, from 1
	servers  [4]*exec.Cmd
	// serve starts a server that listens at addresses.
	serve func(f *farm, n int, addresses [2]string) *exec.Cmd
	// heavy says that connections are processes.
	heavy bool
	// protocols are the protocols of connections, in turn.
	protocols []protocol
}

// newFarm starts a daemon on a machine with hosts; servers 1 and 2 are in use.
func newFarm(t *testing.T, m *machine, kind string, f farm) *farm {
	t.Helper()
	f.t, f.ports = t, &atomic.Int64{}
	f.client = f.host(m, "veth0", kind, "10.0.0.2/24", "2001:db8::2/64")
	for n := 1; n < len(f.hosts); n++ {
		f.hosts[n] = f.host(m, fmt.Sprintf("veth%d", n), kind, fmt.Sprintf(f.balancer.servers[0], n)+"/24", fmt.Sprintf(f.balancer.servers[1], n)+"/64")
		if f.service == "lbdsr" {
			f.hosts[n].Run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
			f.hosts[n].Run("ip", "addr", "add", f.vips[0]+"/32", "dev", "lo")
			f.hosts[n].Run("ip", "addr", "add", f.vips[1]+"/128", "dev", "lo", "nodad")
		}
		f.start(n)
	}
	if f.service == "lbdsr" { // where the client moves to
		f.client.Run("ip", "addr", "add", "10.0.0.9/24", "dev", netns.Inner)
		f.client.Run("ip", "addr", "add", "2001:db8::9/64", "dev", netns.Inner, "nodad")
	}
	f.daemon = m.Start()
	f.Must(201, "POST", "/cubes", f.cubes(kind))
	return &f
}

// host creates a host with addresses of both families; with lbrp it is the only one in its networks.
func (f *farm) host(m *machine, name, kind, ip, ip6 string) *netns.Node {
	opts := []netns.Option{netns.WithIPv6()}
	if kind != "TC" {
		opts = append(opts, netns.WithoutTxChecksum(), netns.WithGRO())
	}
	h := m.lab.Host(name, ip, opts...)
	h.Run("ip", "addr", "add", ip6, "dev", netns.Inner, "nodad")
	if f.service == "lbrp" {
		h.Run("ip", "route", "add", "default", "via", gateway(ip))
		h.Run("ip", "-6", "route", "add", "default", "via", gateway(ip6))
	}
	return h
}

// gateway is the router's address in the network of a host.
func gateway(address string) string {
	ip, _, _ := strings.Cut(address, "/")
	return strings.TrimSuffix(ip, "2") + "1"
}

// cubes are the load balancer and what joins it with the hosts.
func (f *farm) cubes(kind string) string {
	var services, ports []string
	for _, s := range f.services {
		for v, vip := range f.vips {
			conf := fmt.Sprintf(`"vip":%q,"vport":%d,"proto":%q`, vip, s.port, s.proto)
			switch f.service {
			case "lbrp":
				conf += fmt.Sprintf(`,%s,"backend":[%s,%s]`, s.lbrp, f.config(s, v, 1), f.config(s, v, 2))
			case "lbdsr":
				conf += fmt.Sprintf(`,%s,"health-check":{"type":"TCP","port":80,"interval":1000,"rise":1},"server":[%s,%s]`, s.lbdsr, f.config(s, v, 1), f.config(s, v, 2))
			}
			services = append(services, "{"+conf+"}")
		}
	}
	if f.service == "lbdsr" {
		for n := range f.hosts {
			ports = append(ports, fmt.Sprintf(`{"name":"p%d","peer":"veth%[1]d"}`, n))
		}
		return fmt.Sprintf(`[{"service-name":"simplebridge","name":"br","type":%q,"ports":[{"name":"lb","peer":"lb:net"},%s]},
			{"service-name":"lbdsr","name":"lb","type":%[1]q,"ports":[{"name":"net","type":"FRONTEND","ip":"10.0.0.4/24","ip6":"2001:db8::4/64","peer":"br:lb"}],
			 "quic-config":[{"id":%[3]d,"server-id-length":%[4]d}],"service":[%[5]s]}]`, kind, strings.Join(ports, ","), quicConfig, quicServerLength, strings.Join(services, ","))
	}
	for n := 1; n < len(f.hosts); n++ {
		ports = append(ports, fmt.Sprintf(`{"name":"p%d","ip":"10.0.%[1]d.1/24","secondaryip":[{"ip":"2001:db8:%[1]d::1/64"}],"peer":"veth%[1]d"}`, n))
	}
	return fmt.Sprintf(`[{"service-name":"router","name":"r","type":%q,"ports":[{"name":"up","ip":"10.0.0.1/24","secondaryip":[{"ip":"2001:db8::1/64"}],"peer":"lb:b"},%s]},
		{"service-name":"lbrp","name":"lb","type":%[1]q,"ports":[{"name":"f","type":"FRONTEND","peer":"veth0"},{"name":"b","type":"BACKEND","peer":"r:up"}],"service":[%[3]s]}]`,
		kind, strings.Join(ports, ","), strings.Join(services, ","))
}

// config is that of a server of a service.
func (f *farm) config(s farmService, family, n int) string {
	address := fmt.Sprintf(f.balancer.servers[family], n)
	switch {
	case f.service == "lbrp":
		return fmt.Sprintf(`{"ip":%q,"port":%d}`, address, s.port+f.shift)
	case s.port == quicPort:
		return fmt.Sprintf(`{"address":%q,"quic-server-id":%q}`, address, strings.ReplaceAll(fmt.Sprintf("% x", quicServer(n)), " ", ":"))
	}
	return fmt.Sprintf(`{"address":%q}`, address)
}

// each calls fn with the path of a server in each service.
func (f *farm) each(n int, fn func(s farmService, family int, path string)) {
	for _, s := range f.services {
		for v, vip := range f.vips {
			server := "server/" + fmt.Sprintf(f.balancer.servers[v], n)
			if f.service == "lbrp" {
				server = fmt.Sprintf("backend/"+f.balancer.servers[v]+"/%d", n, s.port+f.shift)
			}
			fn(s, v, fmt.Sprintf("/%s/lb/service/%s/%d/%s/%s", f.service, vip, s.port, s.proto, server))
		}
	}
}

// add adds a server to the services, and waits until it is in use.
func (f *farm) add(n int) {
	f.t.Helper()
	f.each(n, func(s farmService, family int, path string) { f.Must(201, "POST", path, f.config(s, family, n)) })
	f.is(n, "UP")
}

// set changes a server.
func (f *farm) set(n int, body string) {
	f.t.Helper()
	f.each(n, func(_ farmService, _ int, path string) { f.Must(201, "PATCH", path, body) })
}

// remove removes a server from the services.
func (f *farm) remove(n int) {
	f.t.Helper()
	f.each(n, func(_ farmService, _ int, path string) { f.Must(204, "DELETE", path, "") })
}

// is waits until a server has a state in all services.
func (f *farm) is(n int, state string) {
	f.t.Helper()
	f.each(n, func(_ farmService, _ int, path string) {
		netns.Eventually(f.t, patience, func() error {
			var s struct{ State string }
			_, text, err := f.Request("GET", path, "")
			if err == nil {
				err = json.Unmarshal([]byte(text), &s)
			}
			if err != nil || s.State != state {
				return fmt.Errorf("GET %s: %s, want the state %s (%w)", path, text, state, err)
			}
			return nil
		})
	})
}

// start starts a server on its host.
func (f *farm) start(n int) {
	f.t.Helper()
	addresses := f.vips
	if f.service == "lbrp" {
		for v := range addresses {
			addresses[v] = fmt.Sprintf(f.balancer.servers[v], n)
		}
	}
	cmd := f.serve(f, n, addresses)
	f.servers[n] = cmd
	f.t.Cleanup(func() {
		if f.servers[n] == cmd {
			f.kill(n)
		}
	})
}

// kill kills a server.
func (f *farm) kill(n int) {
	_ = f.servers[n].Process.Kill() // it may have ended
	_ = f.servers[n].Wait()
	f.servers[n] = nil
}

// serveProtocols starts farmServer.
func serveProtocols(f *farm, n int, addresses [2]string) *exec.Cmd {
	f.t.Helper()
	cmd := f.hosts[n].Command("env", fmt.Sprintf("%s=%d %d %s %s", asFarmServer, n, f.shift, addresses[0], addresses[1]), os.Args[0])
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		f.t.Fatalf("server %d does not listen: %v", n, err)
	}
	return cmd
}

// dial connects to a service from an address and port of the client; "" is any.
func (f *farm) dial(network string, family, port int, from string, local int) (c net.Conn, err error) {
	d := net.Dialer{Timeout: patience, KeepAlive: -1} // a probe of a connection whose server is gone would take a turn of ROUND_ROBIN
	if from != "" {
		d.LocalAddr = &net.UDPAddr{IP: net.ParseIP(from), Port: local}
	}
	err = f.client.Do(func() (err error) {
		c, err = d.Dial(network, net.JoinHostPort(f.vips[family], fmt.Sprint(port)))
		return err
	})
	return c, err
}

// reachable waits until each address and the network behind it can be used: the first packets wait for neighbours.
func (f *farm) reachable() {
	f.t.Helper()
	for _, how := range f.protocols {
		netns.Eventually(f.t, patience, func() error {
			c, err := f.open(how)
			if err == nil {
				err = c.Close()
			}
			return err
		})
	}
}
