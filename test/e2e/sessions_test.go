// SPDX-License-Identifier: Apache-2.0

// Sessions of a NAT while the daemon is replaced, and while its tables are: none of them may get another external endpoint,
// or none at all.

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const (
	// natClients is how many internal addresses there are, each with an external address of its own.
	natClients = 8
	// natServer is who the clients talk with, behind the outer host.
	natServer = "198.51.100.1"
	// sessionMagic begins the payload of the frames of these tests; the number of the session follows.
	sessionMagic = 0x5e551095
	// sessionPayload is where it begins: behind Ethernet, IPv4 and UDP.
	sessionPayload = 14 + 20 + 8
	// firstInternalPort is the first port of the clients. External ports are of another range, so that a session that is made
	// again has another one.
	firstInternalPort = 1024
)

// sessionFlow is sessions through bridge, router and NAT that know their external endpoints.
type sessionFlow struct {
	t               testing.TB
	inside, outside *netns.Raw
	out, in         []byte // templates of frames of clients and of the server

	stop chan struct{}
	done sync.WaitGroup

	// opened is how many sessions there are: 0 to opened-1.
	opened atomic.Uint32
	// external is the endpoint that a session had first; moved says that it had another one since.
	external []atomic.Uint64
	moved    []atomic.Bool
	// answered is the round in which the client last heard from the server.
	answered []atomic.Uint32
	round    atomic.Uint32
	// astray counts answers that another client got.
	astray atomic.Uint32

	mu       sync.Mutex
	problems []error
}

// twoSides makes a host inside and one outside of the NAT.
func twoSides(m *machine) (hosts [2]*netns.Node) {
	hosts[0] = m.lab.Host("veth1", "10.0.0.2/16", netns.WithGRO())
	hosts[1] = m.lab.Host("veth2", "203.0.113.2/24", netns.WithGRO())
	return hosts
}

// natRouter makes bridge, router and NAT between two hosts.
func (d *daemon) natRouter(kind string, maxSessions int, hosts [2]*netns.Node) {
	d.t.Helper()
	var rules, neighbours []string
	for i := 1; i <= natClients; i++ {
		rules = append(rules, fmt.Sprintf(`{"id":%d,"internal-net":"10.0.1.%d/32","external-ip":"192.0.2.%d","port-first":32768,"port-last":65535}`, i, i, i))
		neighbours = append(neighbours, fmt.Sprintf(`{"address":"10.0.1.%d","mac":%q,"interface":"lan"}`, i, hosts[0].MAC))
	}
	d.Must(http.StatusCreated, "POST", "/simplebridge/br1", fmt.Sprintf(`{"type":%q,"ports":[{"name":"clients","peer":"veth1"},{"name":"up"}]}`, kind))
	d.Must(http.StatusCreated, "POST", "/router/r1", fmt.Sprintf(`{"type":%q,"ports":[{"name":"lan","ip":"10.0.0.1/16"},{"name":"wan","ip":"203.0.113.1/24","peer":"veth2"}],
		"route":[{"network":"0.0.0.0/0","nexthop":"203.0.113.2"}],"arp-table":[%s]}`, kind, strings.Join(neighbours, ",")))
	d.Must(http.StatusCreated, "POST", "/nat/n1", fmt.Sprintf(`{"type":%q,"max-sessions":%d,"rule":{"snat":{"entry":[%s]}}}`, kind, maxSessions, strings.Join(rules, ",")))
	d.Do("connect br1:up r1:lan")
	d.Do("attach n1 r1:wan")
}

// newSessionFlow prepares for at most that many sessions.
func newSessionFlow(d *daemon, hosts [2]*netns.Node, most int) *sessionFlow {
	d.t.Helper()
	s := &sessionFlow{t: d.t, inside: netns.OpenRaw(d.t, hosts[0], netns.Inner), outside: netns.OpenRaw(d.t, hosts[1], netns.Inner),
		stop: make(chan struct{}), external: make([]atomic.Uint64, most), moved: make([]atomic.Bool, most), answered: make([]atomic.Uint32, most)}
	mac := func(port string) string { return strings.TrimSpace(d.Do("r1 show ports " + port + " mac")) }
	data := binary.BigEndian.AppendUint32(nil, sessionMagic)
	data = append(data, make([]byte, 12)...)
	s.out = pkt.Eth(hosts[0].MAC.String(), mac("lan")).IPv4("10.0.1.0", natServer).UDP(0, 53).Data(data).Bytes()
	s.in = pkt.Eth(hosts[1].MAC.String(), mac("wan")).IPv4(natServer, "192.0.2.0").UDP(53, 0).Data(data).Bytes()
	for _, receive := range []func(){s.serve, s.hear} {
		s.done.Go(receive)
	}
	d.t.Cleanup(func() { close(s.stop); s.done.Wait() })
	return s
}

func (s *sessionFlow) problem(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, err)
}

// serverEndpoint is where the server answers.
var serverEndpoint = endpointAt(netip.MustParseAddr(natServer).AsSlice(), []byte{0, 53})

// endpointAt reads an IPv4 address and a port into one number.
func endpointAt(addr, port []byte) uint64 {
	return uint64(binary.BigEndian.Uint32(addr))<<16 | uint64(binary.BigEndian.Uint16(port))
}

// internalEndpoint is that of a session's client.
func internalEndpoint(id uint32) uint64 {
	return uint64(10<<24|1<<8|1+id%natClients)<<16 | uint64(firstInternalPort+id/natClients)
}

func endpointText(e uint64) string {
	var addr [4]byte
	binary.BigEndian.PutUint32(addr[:], uint32(e>>16))
	return netip.AddrPortFrom(netip.AddrFrom4(addr), uint16(e)).String()
}

// sessionFrame fills in a copy of a template: an endpoint at the offsets of address and port, and the session.
func sessionFrame(template []byte, addr, port int, e uint64, id uint32) []byte {
	f := append([]byte(nil), template...)
	binary.BigEndian.PutUint32(f[addr:], uint32(e>>16))
	binary.BigEndian.PutUint16(f[port:], uint16(e))
	binary.BigEndian.PutUint32(f[sessionPayload+4:], id)
	pkt.SumIPv4(f[14:])
	f[40], f[41] = 0, 0 // UDP over IPv4 may do without a checksum
	return f
}

// send sends a packet of a session's client.
func (s *sessionFlow) send(id uint32) {
	if err := s.inside.Send(sessionFrame(s.out, 26, 34, internalEndpoint(id), id)); err != nil {
		s.problem(err)
	}
}

// answer sends a packet of the server to an external endpoint.
func (s *sessionFlow) answer(id uint32, external uint64) {
	if err := s.outside.Send(sessionFrame(s.in, 30, 36, external, id)); err != nil {
		s.problem(err)
	}
}

func isSession(f []byte) bool {
	return len(f) >= sessionPayload+8 && binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_IP && f[23] == unix.IPPROTO_UDP &&
		binary.BigEndian.Uint32(f[sessionPayload:]) == sessionMagic
}

// receive passes the sessions' frames on until the test ends.
func (s *sessionFlow) receive(r *netns.Raw, pass func(f []byte, id uint32)) {
	for {
		f, err := r.Recv(isSession, 50*time.Millisecond)
		switch {
		case err == nil:
			if id := binary.BigEndian.Uint32(f[sessionPayload+4:]); id < uint32(len(s.external)) {
				pass(f, id)
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			s.problem(err)
			return
		}
		select {
		case <-s.stop:
			return
		default:
		}
	}
}

// serve answers what clients send, and notes by which endpoints they come.
func (s *sessionFlow) serve() {
	s.receive(s.outside, func(f []byte, id uint32) {
		e := endpointAt(f[26:], f[34:])
		if e == serverEndpoint { // no session has its external endpoint, so the router sent it back
			return
		}
		if !s.external[id].CompareAndSwap(0, e) && s.external[id].Load() != e {
			s.moved[id].Store(true)
		}
		s.answer(id, e)
	})
}

// hear notes what clients get.
func (s *sessionFlow) hear() {
	s.receive(s.inside, func(f []byte, id uint32) {
		if endpointAt(f[30:], f[36:]) != internalEndpoint(id) {
			s.astray.Add(1)
			return
		}
		s.answered[id].Store(s.round.Load())
	})
}

// open opens sessions until there are so many, each answered.
func (s *sessionFlow) open(until uint32) {
	s.t.Helper()
	for id := s.opened.Load(); id < until; id++ {
		s.send(id)
		s.opened.Store(id + 1)
		if id%1000 == 999 {
			s.settled(id - 999)
		}
	}
	s.every("when they are opened", s.send)
}

// settled waits until a session has its endpoint, or for a moment.
func (s *sessionFlow) settled(id uint32) {
	for end := time.Now().Add(100 * time.Millisecond); s.external[id].Load() == 0 && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
}

// every sends for each session until all are answered in a round of its own.
func (s *sessionFlow) every(what string, send func(id uint32)) {
	s.t.Helper()
	round, n := s.round.Add(1), s.opened.Load()
	left := make([]uint32, n)
	for i := range left {
		left[i] = uint32(i)
	}
	for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); {
		for i, id := range left {
			send(id)
			if i%500 == 499 { // the queues of netdevs are short
				<-time.After(time.Millisecond)
			}
		}
		for pause := time.Now().Add(2 * time.Second); len(left) > 0 && time.Now().Before(pause); <-time.After(10 * time.Millisecond) {
			left = slices.DeleteFunc(left, func(id uint32) bool { return s.answered[id].Load() == round })
		}
	}
	if len(left) > 0 {
		s.t.Errorf("%d of %d sessions get no answer %s, the first is %d: %s by %s", len(left), n, what, left[0],
			endpointText(internalEndpoint(left[0])), endpointText(s.external[left[0]].Load()))
	}
}

// under runs fn while sessions are opened and used, those that were opened last most of all. It returns how many were opened.
func (s *sessionFlow) under(perSecond int, fn func()) int {
	s.t.Helper()
	before := s.opened.Load()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		due := time.NewTicker(tick)
		defer due.Stop()
		old := uint32(0)
		for owed := 0; ; {
			select {
			case <-stop:
				return
			case <-due.C:
			}
			for owed += perSecond; owed >= 1000 && int(s.opened.Load()) < len(s.external); owed -= 1000 {
				s.send(s.opened.Load())
				s.opened.Add(1)
			}
			n := s.opened.Load()
			for _, back := range []uint32{2, 5, 10, 20, 40, 80, 160, 320} {
				if back < n-before {
					s.send(n - back)
				}
			}
			for range 4 {
				old = (old + 7919) % before
				s.send(old)
			}
		}
	}()
	fn()
	close(stop)
	<-stopped
	return int(s.opened.Load() - before)
}

// grown waits until so many more sessions were opened: what was done before is then in use.
func (s *sessionFlow) grown(more uint32) {
	s.t.Helper()
	goal := s.opened.Load() + more
	netns.Eventually(s.t, patience, func() error {
		if n := s.opened.Load(); n < goal {
			return fmt.Errorf("%d sessions are open", n)
		}
		return nil
	})
}

// unchanged checks that all sessions are there with the external endpoints that they had first, in both directions, first
// from outside.
func (s *sessionFlow) unchanged() {
	s.t.Helper()
	s.every("from outside", func(id uint32) {
		if e := s.external[id].Load(); e != 0 {
			s.answer(id, e)
		} else {
			s.send(id) // its only packet was lost
		}
	})
	s.every("from inside", s.send)
	var moved []uint32
	for id := range s.opened.Load() {
		if s.moved[id].Load() {
			moved = append(moved, id)
		}
	}
	if len(moved) > 0 {
		s.t.Errorf("%d of %d sessions have got another external endpoint, the first is %d", len(moved), s.opened.Load(), moved[0])
	}
	if n := s.astray.Load(); n > 0 {
		s.t.Errorf("%d packets went to another client", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.problems {
		s.t.Error(err)
	}
}
