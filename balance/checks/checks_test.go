// SPDX-License-Identifier: Apache-2.0

package checks

// Checks of servers that answer in user space: what comes out of the namespace is answered as the test says, with the maps and
// the program of testdata.

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/wire"
)

//go:embed testdata/checks.xdp.o
var object []byte

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

var (
	source  = netip.MustParseAddr("10.0.2.1")
	source6 = netip.MustParseAddr("2001:db8:2::1")
	first   = netip.MustParseAddrPort("10.0.2.11:80")
	second  = netip.MustParseAddrPort("10.0.2.12:80")
	web     = balance.ServiceID{VIP: netip.MustParseAddr("10.0.0.100"), Port: 80, Proto: balance.TCP}
)

// env is a cube: its maps, the lock of its functions, and its events.
type env struct {
	cube.Env
	coll *ebpf.Collection

	mu     sync.Mutex
	told   sync.Mutex
	events []string
}

func (e *env) Map(name string) (*ebpf.Map, error)                 { return e.coll.Maps[name], nil }
func (e *env) Origin(string) (origins.Origin, error)              { return origins.Created, nil }
func (e *env) Logger() *slog.Logger                               { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
func (e *env) EditLater(func() ([]cube.Edit, error), func(error)) {}
func (e *env) AnnounceSession(string, string)                     {}
func (e *env) Send(*cube.PacketOut) error                         { return nil }
func (e *env) Announce(_ string, what string) {
	e.told.Lock()
	defer e.told.Unlock()
	e.events = append(e.events, what)
}

func (e *env) Do(fn func()) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	fn()
	return nil
}

func newEnv(t *testing.T) *env {
	t.Helper()
	netns.NeedRoot(t)
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(coll.Close)
	return &env{coll: coll}
}

// lab is a cube whose servers answer unless they are dead.
type lab struct {
	*Checks
	env   *env
	mu    sync.Mutex
	dead  map[uint32]bool
	asked map[uint32]int
	all   []Change
}

// newLab starts the checks of a cube, as a daemon does that finds its maps.
func newLab(t *testing.T, e *env) *lab {
	t.Helper()
	l := &lab{env: e, dead: map[uint32]bool{}, asked: map[uint32]int{}}
	l.Checks = New(e, Options{Send: l.answer, Changed: l.take})
	l.in(t, l.Begin)
	l.in(t, func() error { return l.Open(Way{MTU: 1280, Sources: []netip.Addr{source, source6}}) })
	t.Cleanup(func() { l.in(t, l.Close) })
	return l
}

// in calls a function in turn with others.
func (l *lab) in(t *testing.T, fn func() error) {
	t.Helper()
	var failed error
	if err := l.env.Do(func() { failed = fn() }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

func (l *lab) take() {
	changes := l.Changes()
	l.Tell(changes)
	l.all = append(l.all, changes...)
}

// answer answers the SYN of a check by a SYN-ACK.
func (l *lab) answer(number uint32, frame []byte) {
	l.mu.Lock()
	l.asked[number]++
	dead := l.dead[number]
	l.mu.Unlock()
	ip, err := wire.ParseIP(frame)
	if err != nil || dead || ip.Proto != wire.ProtoTCP || ip.Payload[13] != 2 {
		return
	}
	flags := pkt.TCPFlags{SYN: true, ACK: true, Ack: binary.BigEndian.Uint32(ip.Payload[4:]) + 1}
	out := pkt.Eth("02:00:00:00:02:11", "02:00:00:00:02:01").IPv4(ip.Dst.String(), ip.Src.String()).
		TCP(binary.BigEndian.Uint16(ip.Payload[2:]), binary.BigEndian.Uint16(ip.Payload), flags).Bytes()
	go func() { _ = l.env.Do(func() { l.Answered(&cube.PacketIn{Data: out, Length: len(out)}) }) }()
}

// kill makes a server dead, or not.
func (l *lab) kill(number uint32, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead[number] = dead
}

// key is that of a server of the service.
func key(server netip.AddrPort) Key {
	k := Key{Service: web}
	a := inet.AddressOf(server.Addr())
	copy(k.Server[:], a[:])
	return k
}

// wants is the check of a server by TCP, or as changed.
func wants(number uint32, server netip.AddrPort, conf *health.Config) Wants {
	return Wants{Name: server.String(), Config: conf, Target: server, Source: source, Number: number}
}

func byTCP() *health.Config {
	return &health.Config{Type: health.TCP, Interval: 250, Timeout: 100, Rise: 2, Fall: 2}
}

// is waits until a server has a status, and an error that contains a text; without one, it has no error.
func (l *lab) is(t *testing.T, server netip.AddrPort, status health.Status, why string) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() (err error) {
		_ = l.env.Do(func() {
			is := l.Of(key(server))
			if is == nil {
				err = fmt.Errorf("%s is not checked", server)
				return
			}
			v := l.View(is)
			if is.Status() != status || v.Status != status || !strings.Contains(v.LastError, why) || why == "" && v.LastError != "" {
				err = fmt.Errorf("%s is %+v, want %s, %q", server, v, status, why)
			}
		})
		return err
	})
}

func TestServersThatFailAndComeBack(t *testing.T) {
	t.Parallel()
	l := newLab(t, newEnv(t))
	conf := byTCP()
	l.kill(2, true)
	l.in(t, func() error {
		l.Watch(key(first), wants(1, first, conf), false)
		l.Watch(key(second), wants(2, second, conf), false)
		return l.Tick()
	})
	l.is(t, first, health.Up, "")
	l.is(t, second, health.Down, "no response")
	l.kill(1, true)
	l.is(t, first, health.Down, "no response")
	l.kill(1, false)
	l.is(t, first, health.Up, "")
	l.in(t, func() error {
		if n := l.Totals(); n.Up != 1 || n.Down != 1 || n.Unknown != 0 || n.Made == 0 || n.Failed == 0 {
			t.Errorf("totals are %+v", n)
		}
		for i, c := range l.all {
			if c.Service != web || c.Name != netip.AddrPortFrom(c.addr(), 80).String() || c.Status == health.Down && c.Error == "" {
				t.Errorf("change %d is %+v", i, c)
			}
		}
		l.Unwatch(key(first))
		l.Unwatch(key(first)) // twice
		if l.Of(key(first)) != nil || l.Totals().Up != 0 {
			t.Error("a server that is not watched any more is known")
		}
		return nil
	})
	l.env.told.Lock()
	defer l.env.told.Unlock()
	if !slices.Contains(l.env.events, "server 10.0.2.11:80 is UP (of 10.0.0.100 80 TCP)") {
		t.Errorf("events are %q", l.env.events)
	}
}

// addr is the address of the server that has changed.
func (c *Change) addr() netip.Addr {
	a, _ := netip.AddrFromSlice(c.Server[:16])
	return a.Unmap()
}

func TestWhatIsKnownOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	l := newLab(t, e)
	conf := &health.Config{Type: health.API, Interval: 1000, Timeout: 1000, Rise: 1, Fall: 1}
	l.in(t, func() error {
		l.Watch(key(first), wants(1, first, conf), true)
		l.Watch(key(second), wants(2, second, conf), false)
		if a, b := l.Of(key(first)).Status(), l.Of(key(second)).Status(); a != health.Up || b != health.Unknown {
			t.Errorf("a server in use is %s, a new one %s", a, b)
		}
		n, err := l.Report(&Report{Status: "DOWN", Error: "being upgraded"}, "10.0.2.12", []Key{key(second)})
		if n != 1 {
			t.Errorf("a report is about %d services", n)
		}
		l.take()
		return err
	})
	l.is(t, second, health.Down, "being upgraded")
	var since string
	l.in(t, func() error {
		since = l.View(l.Of(key(second))).Since
		return l.Close()
	})
	after := newLab(t, e)
	after.in(t, func() error {
		after.Watch(key(second), wants(2, second, conf), true)
		return after.Forget()
	})
	after.is(t, second, health.Down, "being upgraded")
	after.in(t, func() error {
		if is := after.View(after.Of(key(second))).Since; is != since {
			t.Errorf("the server is down since %s, before since %s", is, since)
		}
		if is := after.Watch(key(first), wants(1, first, conf), false).Status(); is != health.Unknown {
			t.Errorf("a server that was forgotten is %s", is)
		}
		return nil
	})
}

func TestReportsNeedAServiceThatTakesThem(t *testing.T) {
	t.Parallel()
	l := newLab(t, newEnv(t))
	l.in(t, func() error {
		l.Watch(key(first), wants(1, first, byTCP()), false)
		port := uint16(81)
		for what, r := range map[string]*Report{"of type TCP": {Status: "UP"}, "of another port": {Status: "UP", VPort: &port}, "of another address": {Status: "UP", VIP: source}} {
			if _, err := l.Report(r, "10.0.2.11", []Key{key(first), key(second)}); err == nil || !strings.Contains(err.Error(), "no service with a health-check of type API has the server 10.0.2.11") {
				t.Errorf("%s: %v", what, err)
			}
		}
		return nil
	})
}

func TestObstaclesChangeNoStatus(t *testing.T) {
	t.Parallel()
	l := newLab(t, newEnv(t))
	conf := byTCP()
	watch := func(change func(*Wants)) {
		t.Helper()
		w := wants(1, first, conf)
		change(&w)
		l.in(t, func() error {
			l.Watch(key(first), w, false)
			return l.Tick()
		})
	}
	watch(func(*Wants) {})
	l.is(t, first, health.Up, "")
	watch(func(w *Wants) { w.Obstacle = "no way" })
	l.is(t, first, health.Up, "cannot check: no way")
	if n := l.env.coll.Maps["check_targets"]; countOf(t, n) != 0 {
		t.Error("answers are accepted to a check that has ended")
	}
	watch(func(*Wants) {})
	l.is(t, first, health.Up, "")
	watch(func(w *Wants) { w.Number = 7 })
	netns.Eventually(t, bpftest.Patience, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.asked[7] == 0 {
			return fmt.Errorf("packets have the numbers %v", l.asked)
		}
		return nil
	})
	l.in(t, func() error { return l.Open(Way{MTU: 600, Sources: []netip.Addr{source}}) })
	watch(func(w *Wants) { w.Target, w.Source = netip.MustParseAddrPort("[2001:db8:2::11]:80"), source6 })
	l.is(t, first, health.Up, "IPv6 needs 1280 bytes")
	l.in(t, func() error {
		l.End()
		return l.Open(Way{MTU: 1280, Sources: []netip.Addr{source}}) // as if the end was undone
	})
	l.in(t, func() error {
		l.End()
		return l.Tick()
	})
	l.in(t, func() error { return l.Open(Way{MTU: 1280, Sources: []netip.Addr{source}}) })
}

func countOf(t *testing.T, m *ebpf.Map) (n int) {
	t.Helper()
	k, v := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	all := m.Iterate()
	for all.Next(&k, &v) {
		n++
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInvalidChecksAreRefused(t *testing.T) {
	none := *byTCP()
	none.Type = health.None
	odd := byTCP()
	odd.Timeout = 300
	file := &health.Config{Type: health.HTTPS, Interval: 100, Timeout: 100, Rise: 1, Fall: 1, TLS: health.TLSConfig{CAFile: "/no/such/file"}}
	for _, tt := range []struct {
		what     string
		conf     *health.Config
		restored bool
		says     string
	}{
		{"none", nil, false, ""},
		{"of type NONE", &none, false, ""},
		{"by TCP", byTCP(), false, ""},
		{"with a long timeout", odd, false, "service 10.0.0.100 80 TCP: "},
		{"with a file that is not there", file, false, "ca-file"},
		{"the same after a restart", file, true, ""},
	} {
		err := Validate(web, tt.conf, first, tt.restored)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("a check %s: %v, want %q", tt.what, err, tt.says)
		}
	}
}

func TestEventsNameTheFirstServices(t *testing.T) {
	var all []balance.ServiceID
	for port := range uint16(6) {
		all = append(all, balance.ServiceID{VIP: web.VIP, Port: 85 - port, Proto: balance.TCP})
	}
	if got, want := listed(all), "10.0.0.100 80 TCP, 10.0.0.100 81 TCP, 10.0.0.100 82 TCP, 10.0.0.100 83 TCP and 2 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// packet is struct checks_case.
type packet struct {
	Source         inet.Address
	From, To       [2]byte
	Protocol       inet.Protocol
	Type, Fragment uint8
	IsAnswer       uint8
}

func TestTheProgramKnowsAnswers(t *testing.T) {
	e := newEnv(t)
	bpftest.Layout(t, object, "healths", healthEntry{})
	ports := func(n uint16) [2]byte { return [2]byte{byte(n >> 8), byte(n)} }
	server, server6 := inet.AddressOf(first.Addr()), inet.AddressOf(netip.MustParseAddr("2001:db8::11"))
	for _, k := range []targetKey{
		{Address: server, Port: ports(80), Protocol: inet.TCP}, {Address: server, Protocol: inet.ICMP}, {Address: server6, Protocol: inet.ICMPv6},
	} {
		if err := e.coll.Maps["check_targets"].Put(k, uint32(8)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		what string
		p    packet
		want uint8
	}{
		{"the first port", packet{Source: server, From: ports(80), To: ports(32768), Protocol: inet.TCP}, 1},
		{"the last one", packet{Source: server, From: ports(80), To: ports(32775), Protocol: inet.TCP}, 1},
		{"the one behind", packet{Source: server, From: ports(80), To: ports(32776), Protocol: inet.TCP}, 0},
		{"the one before", packet{Source: server, From: ports(80), To: ports(32767), Protocol: inet.TCP}, 0},
		{"another server", packet{Source: server6, From: ports(80), To: ports(32768), Protocol: inet.TCP}, 0},
		{"another port of it", packet{Source: server, From: ports(81), To: ports(32768), Protocol: inet.TCP}, 0},
		{"UDP", packet{Source: server, From: ports(80), To: ports(32768), Protocol: inet.UDP}, 0},
		{"a fragment", packet{Source: server, From: ports(80), To: ports(32768), Protocol: inet.TCP, Fragment: 1}, 0},
		{"an echo reply", packet{Source: server, To: ports(32768), Protocol: inet.ICMP, Type: 0}, 1},
		{"an echo request", packet{Source: server, To: ports(32768), Protocol: inet.ICMP, Type: 8}, 0},
		{"an echo reply of IPv6", packet{Source: server6, To: ports(32768), Protocol: inet.ICMPv6, Type: 129}, 1},
		{"an echo request of IPv6", packet{Source: server6, To: ports(32768), Protocol: inet.ICMPv6, Type: 128}, 0},
	} {
		is := tt.p
		bpftest.Exchange(t, e.coll.Programs["checks_run"], &is)
		if is.IsAnswer != tt.want {
			t.Errorf("%s: %d, want %d", tt.what, is.IsAnswer, tt.want)
		}
	}
}

// TestAStatusMayChangeAsTheChecksEnd: whoever is told of it then finds no change.
func TestAStatusMayChangeAsTheChecksEnd(t *testing.T) {
	l := newLab(t, newEnv(t))
	l.in(t, func() error {
		l.of["late"] = &Check{id: "late"}
		l.changed("late", health.State{Status: health.Up})
		err := l.shut()
		if got := l.Changes(); len(got) > 0 {
			t.Errorf("%+v, want no change", got)
		}
		delete(l.of, "late")
		return err
	})
}
