// SPDX-License-Identifier: Apache-2.0

package balancers

// Connections and requests of TCP, compared with a proxy and with forwarding alone.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const tcpText = "A client sends requests of 64 bytes over 32 TCP connections, and the server answers each with 512; or each request has a " +
	"connection of its own, 32 at a time, which the client closes by a reset. Client and server are single threads on CPUs 0 and 1. HAProxy has " +
	"one thread, in mode TCP, and one server. *Per second of CPU* is what counts: requests, divided by the CPU time of client, server, kernel and " +
	"proxy, as other work on the machine does not count then. The balancer's own time is for HAProxy that of its process, with the " +
	"kernel's work for its sockets, and for ours that of its programs at both netdevs, by the kernel's statistics of BPF, which are on in a " +
	"run of their own."

// The ways from client to server.
const (
	forwarding = "Linux forwarding"
	haproxy    = "HAProxy, mode TCP"
)

// own returns the CPU time in ns that a balancer itself has used so far.
type own func() (int64, error)

// way is one from client to server.
type way struct {
	name  string
	setup func(*lab.Rig, *Bench, *lab.Filtered) (to netip.AddrPort, spent own, err error)
	// counted is whether its own time is only there while the kernel counts it.
	counted bool
}

var (
	clientHost = netip.MustParseAddr("192.0.2.2")
	serverHost = netip.MustParseAddr(rightHost)
	proxyAt    = netip.MustParseAddrPort("192.0.2.1:80")
)

// ways are those that can be measured here.
func ways(b *Bench) ([]way, error) {
	all := []way{{name: forwarding, setup: forwarded}, {name: haproxy, setup: proxied}}
	have, err := hasLBRP(b)
	if have {
		all = append(all, way{name: lbrpTCX, setup: ours, counted: true})
	}
	return all, err
}

// forwarded lets the machine forward.
func forwarded(_ *lab.Rig, _ *Bench, w *lab.Filtered) (netip.AddrPort, own, error) {
	w.Left.Run("ip", "route", "add", "default", "via", proxyAt.Addr().String())
	w.Right.Run("ip", "route", "add", "default", "via", "198.51.100.1")
	return netip.AddrPortFrom(serverHost, servicePort), nil, w.Route()
}

// proxied starts HAProxy on the machine.
func proxied(rig *lab.Rig, b *Bench, w *lab.Filtered) (netip.AddrPort, own, error) {
	if _, _, err := forwarded(rig, b, w); err != nil {
		return proxyAt, nil, err
	}
	err := w.Machine.Do(func() error { // ports for many connections to one server
		return errors.Join(os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("1024 65000"), 0),
			os.WriteFile("/proc/sys/net/ipv4/tcp_tw_reuse", []byte("1"), 0))
	})
	if err != nil {
		return proxyAt, nil, err
	}
	conf := filepath.Join(rig.TempDir(), "haproxy.cfg")
	text := fmt.Sprintf("global\n  nbthread 1\n  maxconn 4096\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"+
		"listen bench\n  bind %s\n  server s1 %s:%d\n", proxyAt, serverHost, servicePort)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return proxyAt, nil, err
	}
	path, err := exec.LookPath("haproxy")
	if err != nil {
		return proxyAt, nil, fmt.Errorf("%w: apt-get install haproxy", err)
	}
	cmd := w.Machine.Command(path, "-db", "-f", conf)
	if err := cmd.Start(); err != nil {
		return proxyAt, nil, fmt.Errorf("HAProxy: %w", err)
	}
	rig.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return proxyAt, func() (int64, error) { return lab.ProcessTime(cmd.Process.Pid) }, nil
}

// ours is lbrp between the hosts, which are on one link.
func ours(rig *lab.Rig, b *Bench, w *lab.Filtered) (to netip.AddrPort, spent own, err error) {
	to = netip.AddrPortFrom(firstService, servicePort)
	left, right := w.Left, w.Right
	left.Run("ip", "route", "add", firstService.String()+"/32", "dev", netns.Inner)
	left.Run("ip", "neigh", "add", firstService.String(), "lladdr", right.MAC.String(), "dev", netns.Inner)
	right.Run("ip", "route", "add", clientHost.String()+"/32", "dev", netns.Inner)
	right.Run("ip", "neigh", "add", clientHost.String(), "lladdr", left.MAC.String(), "dev", netns.Inner)
	d, err := contest.DaemonAt(rig, b, w)
	if err != nil {
		return to, nil, err
	}
	err = errors.Join(contest.Post(d, "/lbrp/c1", object{
		"type": cube.TypeTC, "max-sessions": room,
		"ports":   []object{{"name": "front", "type": "FRONTEND", "peer": lab.In}, {"name": "back", "type": "BACKEND", "peer": lab.Out}},
		"service": []object{{"vip": firstService, "vport": servicePort, "proto": "TCP", "backend": []object{{"ip": serverHost, "port": servicePort}}}},
	}), d.Inlined("c1"))
	if err != nil {
		return to, nil, err
	}
	programs, err := attached(w, lab.In, lab.Out)
	for _, p := range programs {
		rig.Closing(p)
	}
	return to, func() (int64, error) { return runtime(programs) }, err
}

// attached are the programs at netdevs of the machine, where packets come in.
func attached(w *lab.Filtered, devs ...string) (all []*ebpf.Program, err error) {
	err = w.Machine.Do(func() error {
		for _, dev := range devs {
			l, err := netlink.LinkByName(dev)
			if err != nil {
				return fmt.Errorf("netdev %s: %w", dev, err)
			}
			ids, err := netns.TCPrograms(l, ebpf.AttachTCXIngress)
			if err != nil {
				return err
			}
			for _, id := range ids {
				p, err := ebpf.NewProgramFromID(id)
				if err != nil {
					return fmt.Errorf("program of %s: %w", dev, err)
				}
				all = append(all, p)
			}
		}
		return nil
	})
	return all, err
}

// runtime is how long programs have run while the kernel counted.
func runtime(programs []*ebpf.Program) (ns int64, err error) {
	for _, p := range programs {
		stats, err := p.Stats()
		if err != nil {
			return 0, fmt.Errorf("statistics of %s: %w", p, err)
		}
		ns += stats.Runtime.Nanoseconds()
	}
	return ns, nil
}

// talked are the results of one way.
type talked struct{ cpu, wall, own report.Sample }

// connectionsAtOnce is how many there are.
const connectionsAtOnce = 32

// talk measures a way once.
func (y way) talk(rig *lab.Rig, b *Bench, each bool, out *talked) error {
	w, err := rig.NewFiltered()
	if err != nil {
		return err
	}
	w.Left.Run("ip", "addr", "add", clientHost.String()+"/24", "dev", netns.Inner)
	w.Right.Run("ip", "addr", "add", serverHost.String()+"/24", "dev", netns.Inner)
	to, spent, err := y.setup(rig, b, w)
	if err != nil {
		return err
	}
	length := 500 * time.Millisecond
	if b.Quick {
		length = 200 * time.Millisecond
	}
	once := func(length time.Duration) (lab.Talk, int64, error) {
		var before, after int64
		if spent != nil {
			if before, err = spent(); err != nil {
				return lab.Talk{}, 0, err
			}
		}
		t, err := rig.Talk(w.Left, w.Right, to, servicePort, connectionsAtOnce, each, length)
		if spent != nil && err == nil {
			after, err = spent()
		}
		return t, after - before, err
	}
	const patience = 20 * time.Second
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) { // a proxy is about to listen
		if _, _, err = once(200 * time.Millisecond); err == nil {
			break
		}
		if time.Since(begin) > patience {
			return err
		}
	}
	t, self, err := once(length)
	if err != nil {
		return err
	}
	cpu := t.NS
	if !y.counted {
		cpu += self
	} else if self, err = counted(func() (lab.Talk, int64, error) { return once(length) }, t); err != nil {
		return err
	}
	n := float64(t.Requests)
	out.cpu, out.wall = append(out.cpu, n/float64(cpu)*1e9), append(out.wall, n/t.Took.Seconds())
	out.own = append(out.own, float64(self)/n)
	return nil
}

// counted is the own time of as many requests as t has, while the kernel counts it.
func counted(once func() (lab.Talk, int64, error), t lab.Talk) (int64, error) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return 0, fmt.Errorf("statistics of programs: %w", err)
	}
	again, self, err := once()
	if err := errors.Join(err, stats.Close()); err != nil {
		return 0, err
	}
	return int64(float64(self) / float64(again.Requests) * float64(t.Requests)), nil
}

// tcp is the part "balancer-tcp".
func tcp(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Balancers: TCP", Text: tcpText}
	all, err := ways(b)
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		what     string
		each     bool
		promised float64
	}{{"Requests", false, 1.6}, {"Connections", true, 1.8}} {
		results := map[string]*talked{}
		rounds := b.Rounds(15, 3)
		for round := range rounds {
			b.Progress("balancer-tcp: %s, round %d of %d", c.what, round+1, rounds)
			for _, y := range contest.Shuffled(all) {
				if results[y.name] == nil {
					results[y.name] = &talked{}
				}
				if err := lab.With(ctx, func(rig *lab.Rig) error { return y.talk(rig, b, c.each, results[y.name]) }); err != nil {
					return nil, fmt.Errorf("%s: %w", y.name, err)
				}
			}
		}
		compare(out, c.what, c.promised, all, results)
	}
	return out, nil
}
