// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Health checks of real servers in namespaces, through the cube's programs.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// sides are a client port, and two ports with a network of servers each.
const sides = `"ports":[{"name":"f","type":"FRONTEND","peer":"veth1","mac":"` + frontMAC + `"},
 {"name":"b","type":"BACKEND","peer":"veth2","ip":"10.0.2.1/24","ip6":"2001:db8:2::1/64"},
 {"name":"c","type":"BACKEND","peer":"veth3","ip":"10.0.3.1/24","ip6":"2001:db8:3::1/64"}]`

// web is a real server of HTTP, on a virtual address of each family.
type web struct {
	host   *netns.Node
	mac    net.HardwareAddr
	status atomic.Int32
	asked  atomic.Int32
	server *http.Server
}

const (
	webVIP  = "10.0.0.100"
	webVIP6 = "2001:db8::100"
)

// newWeb starts a server on a host.
func newWeb(t *testing.T, l *bpftest.Lab, host int) *web {
	t.Helper()
	w := &web{host: l.Hosts[host-1]}
	w.status.Store(200)
	h := w.host
	h.Run("sh", "-c", "echo 1 | tee /proc/sys/net/ipv4/conf/*/arp_ignore; echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter")
	h.Run("ip", "address", "add", fmt.Sprintf("10.0.%d.11/24", host), "dev", "eth0")
	h.Run("ip", "address", "add", fmt.Sprintf("2001:db8:%d::11/64", host), "dev", "eth0", "nodad")
	h.Run("ip", "address", "add", webVIP+"/32", "dev", "lo")
	h.Run("ip", "address", "add", webVIP6+"/128", "dev", "lo", "nodad")
	h.Must(func() error {
		dev, err := net.InterfaceByName("eth0")
		if err == nil {
			w.mac = dev.HardwareAddr
		}
		return err
	})
	w.start(t)
	return w
}

// start starts to listen.
func (w *web) start(t *testing.T) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		w.asked.Add(1)
		out.WriteHeader(int(w.status.Load()))
		_, _ = out.Write([]byte("ready")) // the checker may be gone
	})}
	w.server = server
	for _, a := range []string{webVIP, webVIP6} {
		var is net.Listener
		w.host.Must(func() (err error) {
			is, err = net.Listen("tcp", net.JoinHostPort(a, "80"))
			return err
		})
		go func() { _ = server.Serve(is) }()
	}
	t.Cleanup(func() { server.Close() })
}

// stop makes it refuse connections.
func (w *web) stop() { w.server.Close() }

// live are the hosts of a lab with real servers.
var live = bpftest.Options{Hosts: 3, Host: []netns.Option{netns.WithIPv6(), netns.WithGRO()}}

// is waits until a server of a service has a state, and an error.
func is(t *testing.T, l *bpftest.Lab, service, server, state, why string) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() error {
		var s struct {
			State  string
			Health health.View
		}
		text := l.Read("lb service " + service + " server " + server)
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return err
		}
		if s.State != state || !strings.Contains(s.Health.LastError, why) || why == "" && s.Health.LastError != "" {
			return fmt.Errorf("server %s of %s is %s, want %s, %q", server, service, text, state, why)
		}
		return nil
	})
}

// quick makes checks often, so that tests are short.
const quick = `"interval":250,"timeout":100,"fall":2,"rise":1,`

func TestServersOnTheLinkAreChecked(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			o := live
			o.Type = typ
			l := bpftest.New(t, o)
			one, two := newWeb(t, l, 2), newWeb(t, l, 3)
			two.status.Store(503)
			l.Create("lbdsr", "lb", `{`+sides+`,"service":[
 {"vip":"`+webVIP+`","vport":80,"proto":"TCP","health-check":{`+quick+`"type":"HTTP","http":{"path":"/x","body":"ready"}},"server":[{"address":"10.0.2.11"},{"address":"10.0.3.11"}]},
 {"vip":"`+webVIP6+`","vport":80,"proto":"TCP","health-check":{`+quick+`"type":"TCP"},"server":[{"address":"2001:db8:2::11"},{"address":"2001:db8:3::11"}]},
 {"vip":"`+webVIP+`","vport":53,"proto":"UDP","health-check":{`+quick+`"type":"ICMP"},"server":[{"address":"10.0.2.11"}]},
 {"vip":"`+webVIP6+`","vport":53,"proto":"UDP","health-check":{`+quick+`"type":"ICMP"},"server":[{"address":"2001:db8:3::11"}]}]}`)
			const http, tcp6 = webVIP + " 80 TCP", webVIP6 + " 80 TCP"
			is(t, l, http, "10.0.2.11", "UP", "")
			is(t, l, http, "10.0.3.11", "DOWN", "503")
			is(t, l, tcp6, "2001:db8:2::11", "UP", "")
			is(t, l, tcp6, "2001:db8:3::11", "UP", "")
			is(t, l, webVIP+" 53 UDP", "10.0.2.11", "UP", "")
			is(t, l, webVIP6+" 53 UDP", "2001:db8:3::11", "UP", "")
			all := func(w *web) {
				t.Helper()
				netns.Eventually(t, bpftest.Patience, func() error {
					for n := range uint32(20) {
						if _, got := l.RunBytes("veth1", flow(n, syn)); len(got) < 6 || !bytes.Equal(got[:6], w.mac) {
							return fmt.Errorf("flow %d is sent to % x, want % x", n, got[:min(len(got), 6)], w.mac)
						}
					}
					return nil
				})
			}
			all(one)
			two.status.Store(200)
			is(t, l, http, "10.0.3.11", "UP", "")
			one.stop()
			is(t, l, http, "10.0.2.11", "DOWN", "refused")
			is(t, l, tcp6, "2001:db8:2::11", "DOWN", "refused")
			all(two)
			one.start(t)
			is(t, l, http, "10.0.2.11", "UP", "")
			one.host.Run("ip", "link", "set", "lo", "down")
			one.host.Run("ip", "address", "del", webVIP+"/32", "dev", "lo")
			is(t, l, webVIP+" 53 UDP", "10.0.2.11", "DOWN", "no response")
			if one.asked.Load() == 0 || two.asked.Load() == 0 {
				t.Error("a server that is up was never asked")
			}
			echo := client().IPv4("10.9.0.1", webVIP).Echo(7, 8).Payload(32).Bytes()
			if _, got := l.RunBytes("veth1", echo); !bytes.Equal(got, echoReply(echo, "10.9.0.1", webVIP)) {
				t.Errorf("an echo request while a server is up: % x", got)
			}
			two.stop()
			is(t, l, http, "10.0.3.11", "DOWN", "refused")
			if got, _ := l.RunBytes("veth1", echo); !strings.Contains(got.Fate, "lb no-server") {
				t.Errorf("an echo request while no server is up: %+v", got)
			}
		})
	}
}

// TestAFailureAfterARestartIsOneOfSeveral: when a daemon starts, its host is busy, and the first check may fail. A server that was up
// keeps its connections until it has failed as often as at any other time.
func TestAFailureAfterARestartIsOneOfSeveral(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, live)
	w := newWeb(t, l, 2)
	l.Create("lbdsr", "lb", `{`+sides+`,"service":[{"vip":"`+webVIP+`","vport":80,"proto":"TCP","health-check":{"interval":100,"timeout":100,"fall":100,"rise":1,"type":"TCP"},
		"server":[{"address":"10.0.2.11"}]}]}`)
	const service = webVIP + " 80 TCP"
	is(t, l, service, "10.0.2.11", "UP", "")
	l.Restart(w.stop)
	netns.Eventually(t, bpftest.Patience, func() error {
		var s struct {
			State  string
			Health health.View
		}
		if err := json.Unmarshal([]byte(l.Read("lb service "+service+" server 10.0.2.11")), &s); err != nil {
			return err
		}
		if s.State != "UP" {
			t.Fatalf("after %d failures of 100, the server is %s", s.Health.FailedChecks, s.State)
		}
		if s.Health.FailedChecks < 3 {
			return fmt.Errorf("%d checks have failed", s.Health.FailedChecks)
		}
		return nil
	})
	l.Set("PATCH", "lb service "+service+" health-check", `{"fall":2}`)
	is(t, l, service, "10.0.2.11", "DOWN", "refused")
}

func TestARestartIsNotNoticed(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, live)
	w := newWeb(t, l, 2)
	l.Create("lbdsr", "lb", `{`+sides+`,"service":[{"vip":"`+webVIP+`","vport":80,"proto":"TCP","health-check":{"interval":1100,"timeout":500,"fall":2,"rise":2,"type":"HTTP"},"server":[{"address":"10.0.2.11"}]}]}`)
	const service = webVIP + " 80 TCP" // with time for checks on a busy machine, as none may fail
	is(t, l, service, "10.0.2.11", "UP", "")
	state := func() (h health.View) {
		t.Helper()
		if err := json.Unmarshal([]byte(l.Read("lb service "+service+" server 10.0.2.11 health")), &h); err != nil {
			t.Fatal(err)
		}
		return h
	}
	_, before := l.RunBytes("veth1", flow(1, syn))
	since := state().Since
	l.Restart(nil)
	if _, after := l.RunBytes("veth1", flow(1, syn)); !bytes.Equal(after, before) || !bytes.Equal(after[:6], w.mac) {
		t.Errorf("a packet after a restart is\n% x, before it was\n% x", after, before)
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		h := state()
		if h.Since != since || h.FailedChecks > 0 {
			t.Errorf("after a restart the server is %+v, before it was up since %s", h, since)
		}
		if h.Checks < 5 {
			return fmt.Errorf("%d checks after a restart", h.Checks)
		}
		return nil
	})
}
