// SPDX-License-Identifier: Apache-2.0

package evnf

// The fast paths of firewall and load balancer on the machines of a web service, and whether packets take them.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

// machine has fast paths in a daemon of its own.
type machine struct {
	*lab.Daemon
	client   *lab.Client
	programs []*ebpf.Program // at its netdevs
}

// fastPaths are those of a site.
type fastPaths struct {
	machines []*machine // of the firewall and of the balancer, if they are not the same
	efw      []string   // cubes on the first machine
}

func (f *fastPaths) firewall() *machine { return f.machines[0] }
func (f *fastPaths) balancer() *machine { return f.machines[len(f.machines)-1] }

type object = map[string]any

// accelerate puts fast paths in front of the functions, and waits until they are in effect.
func (s *site) accelerate() error {
	s.fast = &fastPaths{}
	nodes := []*netns.Node{s.firewall, s.balancer}
	netdevs := []string{clientDev, netns.Inner} // with a firewall
	if s.firewall == s.balancer {
		nodes, netdevs = nodes[:1], netdevs[1:]
	}
	for _, n := range nodes {
		d, err := contest.DaemonAt(s.rig, s.b, &lab.Filtered{Wire: &lab.Wire{Machine: &netns.Lab{Namespace: n.Namespace}}})
		if err != nil {
			return err
		}
		s.fast.machines = append(s.fast.machines, &machine{Daemon: d, client: d.Client()})
	}
	for i, dev := range netdevs {
		conf := object{}
		if s.hook == cube.XDP && len(netdevs) > 1 {
			conf["outputs"] = []object{{"number": 1, "to": netdevs[1-i]}}
		}
		if err := s.efw(fmt.Sprintf("efw%d", i+1), dev, conf); err != nil {
			return err
		}
	}
	if err := s.elb(); err != nil {
		return err
	}
	for i, dev := range netdevs {
		if err := errors.Join(offloaded(s.rig.Context(), s.fast.firewall().Daemon, s.fast.efw[i]), s.count(s.fast.firewall(), dev)); err != nil {
			return err
		}
	}
	if s.firewall != s.balancer {
		return s.count(s.fast.balancer(), netns.Inner)
	}
	return nil
}

// put creates a cube and attaches it to a netdev, next to the stack.
func (s *site) put(m *machine, service, name, dev string, conf object) error {
	conf["type"] = map[cube.Hook]cube.Type{cube.TC: cube.TypeTC, cube.XDP: cube.TypeXDPDRV}[s.hook]
	if err := contest.Post(m.Daemon, "/"+service+"/"+name, conf); err != nil {
		return err
	}
	return errors.Join(contest.Post(m.Daemon, "/attach", object{"cube": name, "port": dev, "position": "last"}), m.Inlined(name))
}

// efw is a fast path of iptables.
func (s *site) efw(name, dev string, conf object) error {
	s.fast.efw = append(s.fast.efw, name)
	return s.put(s.fast.firewall(), "efw", name, dev, conf)
}

// elb takes over the frontend of HAProxy.
func (s *site) elb() error {
	m := s.fast.balancer()
	// Many ports: runs with a connection for each request need so many that they would soon return to one for which the server is
	// still in TIME_WAIT.
	s.balancer.Run("sysctl", "-qw", "net.ipv4.ip_local_port_range=61001 65535")
	err := s.put(m, "elb", "elb1", netns.Inner, object{
		"max-sessions": 1 << 18, "source-ports": "1024-61000", "timeout": object{"tcp-time-wait": 1},
		"haproxy": object{"file": []string{s.config}},
	})
	if err != nil {
		return err
	}
	return eventually(s.rig.Context(), func() error {
		var state struct {
			Frontend []struct {
				Taken bool `json:"taken-over"`
			} `json:"frontend"`
			Server []struct {
				State string `json:"state"`
			} `json:"server"`
		}
		if err := m.read("/elb/elb1", &state); err != nil {
			return err
		}
		up := 0
		for _, server := range state.Server {
			if server.State == "UP" {
				up++
			}
		}
		if len(state.Frontend) != 1 || !state.Frontend[0].Taken || up != len(webServers) {
			return fmt.Errorf("elb has not taken over: %+v: %w", state, contest.ErrLost)
		}
		return nil
	})
}

// count counts the time of the programs of a netdev.
func (s *site) count(m *machine, dev string) error {
	programs, err := m.Carried(s.hook, dev)
	m.programs = append(m.programs, programs...)
	return err
}

// read reads a part of the API.
func (m *machine) read(path string, into any) error {
	_, answer, _, err := m.client.Do(http.MethodGet, path, "")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("GET %s: %w: %.300s", path, err, answer)
	}
	return nil
}

// spent is the CPU time in ns of the daemon, and of the programs while the kernel counts it.
func (m *machine) spent() (daemon, programs int64, err error) {
	used, err := m.CPU()
	if err != nil {
		return 0, 0, err
	}
	for _, p := range m.programs {
		stats, err := p.Stats()
		if err != nil {
			return 0, 0, fmt.Errorf("statistics of %s: %w", p, err)
		}
		programs += stats.Runtime.Nanoseconds()
	}
	return used.Nanoseconds(), programs, nil
}

// passed is what has been counted so far.
type passed struct {
	opened  uint64 // sessions of elb
	refused uint64 // SYNs of the service that it left to the stack
	// segments of TCP are those that the stack of the balancer has received, datagrams those that the stack of the firewall
	// has forwarded.
	segments, datagrams uint64
}

// passed reads it.
func (s *site) passed() (p passed, err error) {
	if s.fast == nil {
		return p, nil
	}
	var sessions struct {
		Opened    uint64 `json:"opened"`
		NoServer  uint64 `json:"no-server"`
		Connected uint64 `json:"connected"`
		NoPort    uint64 `json:"no-port"`
		Full      uint64 `json:"full"`
		Undecided uint64 `json:"undecided"`
	}
	if err := s.fast.balancer().read("/elb/elb1/sessions", &sessions); err != nil {
		return p, err
	}
	p.opened, p.refused = sessions.Opened, sessions.NoServer+sessions.Connected+sessions.NoPort+sessions.Full+sessions.Undecided
	if p.segments, err = stackCounter(s.balancer, "Tcp", "InSegs"); err == nil {
		p.datagrams, err = stackCounter(s.firewall, "Ip", "ForwDatagrams")
	}
	return p, err
}

// stackCounter is a counter of a namespace's stack.
func stackCounter(n *netns.Node, protocol, name string) (uint64, error) {
	var text []byte
	err := n.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/snmp")
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("counters of %s: %w", n.Outer, err)
	}
	return readCounter(string(text), protocol, name)
}

// readCounter finds a counter in the pairs of lines of /proc/net/snmp: names, and values.
func readCounter(text, protocol, name string) (uint64, error) {
	var names []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != protocol+":" {
			continue
		}
		if names == nil {
			names = words
			continue
		}
		if at := slices.Index(names, name); at > 0 && at < len(words) {
			n, err := strconv.ParseUint(words[at], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("counter %s of %s: %w", name, protocol, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("counter %s of %s: %w", name, protocol, cube.ErrNotFound)
}

// took checks that a load took the fast paths.
func (s *site) took(before passed, l load, requests int) error {
	if s.fast == nil {
		return nil
	}
	after, err := s.passed()
	if err != nil {
		return err
	}
	for _, name := range s.fast.efw {
		if err := offloaded(s.rig.Context(), s.fast.firewall().Daemon, name); err != nil {
			return err
		}
	}
	return before.fast(after, l, requests)
}

// fast checks that elb has opened the sessions, and that the stacks had nothing to do with them: a request through HAProxy, or
// by the rules of iptables, takes at least two packets to the stack, where otherwise only health checks are. A new connection may be from the port of a
// session that is closing, and opens that again. One in a hundred may be HAProxy's, of which the stack gets up to a dozen segments: when its daemon gets no
// CPU for some milliseconds, efw leaves packets to the rules, as it could not see them change.
func (p passed) fast(after passed, l load, requests int) error {
	d := passed{after.opened - p.opened, after.refused - p.refused, after.segments - p.segments, after.datagrams - p.datagrams}
	few := 100 + uint64(requests)/20
	hundredth := uint64(0)
	if l.each {
		hundredth = uint64(requests) / 100
	}
	few += 12 * min(d.refused, hundredth)
	if d.refused <= hundredth && d.opened >= uint64(l.connections) && d.segments <= few && d.datagrams <= few {
		return nil
	}
	return fmt.Errorf("%d requests: elb opened %d sessions and refused %d; the stacks got %d segments and forwarded %d packets: %w",
		requests, d.opened, d.refused, d.segments, d.datagrams, contest.ErrLost)
}
