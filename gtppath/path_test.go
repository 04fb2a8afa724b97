// SPDX-License-Identifier: Apache-2.0

package gtppath

// Programs hand over what user space knows, and user space answers, watches peers and tells the cube.

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/wire"
)

var (
	//go:embed testdata/gtppath.tc.o
	programsTC []byte
	//go:embed testdata/gtppath.xdp.o
	programsXDP []byte
)

const (
	local, peer4, stranger = "192.0.2.1", "192.0.2.10", "192.0.2.99"
	localMAC, peerMAC      = "02:00:00:00:00:01", "02:00:00:00:00:0a"
)

// env is a framework of maps; what is sent stays in it.
type env struct {
	cube.Env
	coll *ebpf.Collection
	sent []*cube.PacketOut
}

func (e *env) Map(name string) (*ebpf.Map, error)    { return e.coll.Maps[name], nil }
func (e *env) Origin(string) (origins.Origin, error) { return origins.Created, nil }
func (e *env) Logger() *slog.Logger                  { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
func (e *env) Every(time.Duration, func()) func()    { return func() {} }
func (e *env) Send(p *cube.PacketOut) error {
	e.sent = append(e.sent, p)
	return nil
}

// lab is a Path with one peer, and what it has told the cube.
type lab struct {
	*Path
	*env
	t    *testing.T
	told []string
}

// each runs a test at both hooks. Every Echo Request is due, and overdue, at once.
func each(t *testing.T, test func(t *testing.T, l *lab)) {
	for hook, object := range map[string][]byte{"TC": programsTC, "XDP": programsXDP} {
		t.Run(hook, func(t *testing.T) {
			l := &lab{env: &env{coll: bpftest.Load(t, object)}, t: t}
			l.Path = New(l.env, Options{
				Changed:   func(peer netip.Addr, up bool) { l.told = append(l.told, fmt.Sprint(peer, " ", up)) },
				Indicated: func(from netip.Addr, teid uint32) { l.told = append(l.told, fmt.Sprint(from, " ", teid)) },
			})
			l.SetParent(cube.Parent{MAC: pkt.MAC(localMAC)})
			l.must(l.Begin(nil))
			l.must(l.Configure(Settings{Locals: locals(local), EchoInterval: 1, EchoTimeout: 1, EchoRequests: 2}, nil))
			l.must(l.Use(netip.MustParseAddr(peer4), 0, nil))
			test(t, l)
		})
	}
}

// locals are local addresses of the network instance without a name.
func locals(texts ...string) (all []Address) {
	for _, a := range addresses(texts...) {
		all = append(all, Address{Address: a})
	}
	return all
}

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// frame is a message in a frame from the peer's MAC address.
func frame(from, to string, m gtpu.Message) []byte {
	payload, err := m.Append(nil)
	if err != nil {
		panic(err)
	}
	return carry(from, to, payload, 0)
}

// carry is a datagram of GTP-U, or the first fragment of one.
func carry(from, to string, payload []byte, fragment uint16) []byte {
	udp := pkt.UDPDatagram(from, to, 3000, gtpu.Port, payload)
	return pkt.EthernetFrame(pkt.MAC(localMAC), pkt.MAC(peerMAC), 0x0800, pkt.IPv4Header{From: from, To: to, Protocol: pkt.ProtoUDP, TTL: 64, Fragment: fragment}.Packet(udp))
}

// run gives a frame to the program, which says what becomes of it: a label of its enums, "user" or "other".
func (l *lab) run(f []byte) string { return l.runs(f, 1) }

// runs does so several times, and returns the last result.
func (l *lab) runs(f []byte, times uint32) string {
	l.t.Helper()
	result, err := l.coll.Programs["gtppath_read"].Run(&ebpf.RunOptions{Data: f, Repeat: times})
	l.must(err)
	verdict, reason := result&0xff, int(result>>8)-32
	switch {
	case verdict == 0xff:
		return "other"
	case verdict == 0xfe:
		return "user"
	case verdict == 2 && reason >= 0:
		return "drop " + enumerators(l.t, "gtppath_reason")[reason]
	case verdict == 4 && reason >= 0:
		return "up " + enumerators(l.t, "gtppath_slowpath_reason")[reason]
	}
	return fmt.Sprintf("%#x", result)
}

// enumerators are those of an enum of the programs, without the prefix.
func enumerators(t *testing.T, name string) (all []string) {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(programsTC))
	if err != nil {
		t.Fatal(err)
	}
	var e *btf.Enum
	if err := spec.Types.TypeByName(name, &e); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i, v := range e.Values {
		if v.Value != uint64(32+i) {
			t.Errorf("%s is %d, want %d", v.Name, v.Value, 32+i)
		}
		all = append(all, strings.TrimPrefix(v.Name, "GTPPATH_"))
	}
	return all
}

// gets hands a message to user space.
func (l *lab) gets(reason uint16, from string, m gtpu.Message) {
	f := frame(from, local, m)
	l.PacketIn(&cube.PacketIn{Reason: reason, Data: f, Length: len(f)})
}

// last returns the only message that was sent since, and where it goes.
func (l *lab) last(what string) (m gtpu.Message, to netip.AddrPort) {
	l.t.Helper()
	if len(l.sent) != 1 {
		l.t.Fatalf("%s: %d frames are sent, want 1", what, len(l.sent))
	}
	out := l.sent[0]
	l.sent = nil
	ip, err := wire.ParseIP(out.Data)
	l.must(err)
	d, ok := ip.Datagram()
	if want := pkt.MAC(peerMAC); !ok || d.Src.String() != local+":2152" || !bytes.Equal(out.Data[:6], want) || out.Direction != cube.Egress {
		l.t.Errorf("%s: from %s to %x, %v", what, d.Src, out.Data[:6], out.Direction)
	}
	m, err = gtpu.Parse(d.Payload)
	l.must(err)
	return m, d.Dst
}

func TestMapsAndReasonsAreThoseOfThePrograms(t *testing.T) {
	bpftest.Layout(t, programsTC, "limits", Limits{})
	names := enumerators(t, "gtppath_reason")
	if last := len(names) - 1; names[last] != "OWN" || names[last-1] != "FLOODED" {
		t.Errorf("a cube's own reasons do not follow the others: %v", names)
	}
	names = enumerators(t, "gtppath_slowpath_reason")
	for reason, name := range map[int]string{reasonEcho: "ECHO", reasonUnknownTunnel: "UNKNOWN_TUNNEL", reasonUnknownExtension: "UNKNOWN_EXTENSION",
		reasonErrorIndication: "ERROR_INDICATION", reasonTooBig: "TOO_BIG", reasonSegment: "SEGMENT", OwnReason: "OWN_UP"} {
		if names[reason-32] != name {
			t.Errorf("reason %d is %s, want %s", reason, names[reason-32], name)
		}
	}
}

func TestProgramsHandOverWhatUserSpaceAnswers(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		packet := gtpu.Message{Type: gtpu.PDU, TEID: 7, Payload: []byte{0x45}}
		unknown := gtpu.Message{Type: gtpu.PDU, Extensions: []gtpu.Extension{{Type: 0xc0, Content: []byte{1, 2}}}}
		for _, tt := range []struct {
			name  string
			frame []byte
			want  string
		}{
			{"a packet of a user", frame(peer4, local, packet), "user"},
			{"a packet for another end", frame(peer4, stranger, packet), "other"},
			{"Echo Request", frame(peer4, local, gtpu.Echo(false, 1)), "up ECHO"},
			{"Echo Response", frame(peer4, local, gtpu.Echo(true, 1)), "up ECHO"},
			{"Error Indication", frame(peer4, local, gtpu.Indication(1, netip.MustParseAddr(peer4))), "up ERROR_INDICATION"},
			{"an unknown extension header", frame(peer4, local, unknown), "up UNKNOWN_EXTENSION"},
			{"End Marker", frame(peer4, local, gtpu.End(1)), "drop END_MARKER"},
			{"another type", frame(peer4, local, gtpu.Message{Type: 99}), "drop UNKNOWN_MESSAGE"},
			{"version 2", carry(peer4, local, []byte{0x48, 1, 0, 0, 0, 0, 0, 0}, 0), "drop WRONG_VERSION"},
			{"nothing", carry(peer4, local, nil, 0), "drop MALFORMED"},
			{"a fragment", carry(peer4, local, make([]byte, 16), 0x2000), "drop OUTER_FRAGMENT"},
		} {
			if got := l.run(tt.frame); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		}
		flooded := 0
		for range 9 { // the last one may come when there is just room for another
			if l.runs(frame(peer4, local, unknown), 2000) == "drop FLOODED" {
				flooded++
			}
		}
		if flooded < 5 {
			t.Errorf("of floods of 2000 messages, the last one was dropped in %d of 9", flooded)
		}
		all, err := l.States()
		if want := (State{Address: netip.MustParseAddr(peer4), Status: Unknown, MAC: peerMAC, Users: 1}); err != nil || !slices.Equal(all, []State{want}) {
			t.Errorf("%+v, %v, want %+v", all, err, want)
		}
	})
}

func TestPeersGoUpAndDown(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.tick()
		if len(l.sent) > 0 {
			t.Error("a peer is asked that nobody has heard")
		}
		l.run(frame(peer4, local, gtpu.Echo(false, 1))) // tells where it is
		l.tick()
		first, to := l.last("Echo Request")
		if first.Type != gtpu.EchoRequest || to.String() != peer4+":2152" {
			t.Errorf("%+v to %s", first, to)
		}
		l.gets(reasonEcho, peer4, gtpu.Echo(true, *first.Sequence+1))
		l.gets(reasonEcho, stranger, gtpu.Echo(true, *first.Sequence))
		l.gets(reasonEcho, peer4, gtpu.Echo(true, *first.Sequence))
		l.tick()
		next, _ := l.last("the next one")
		l.tick()
		again, _ := l.last("the same once more")
		if *next.Sequence == *first.Sequence || *again.Sequence != *next.Sequence {
			t.Errorf("numbers %d, %d, %d", *first.Sequence, *next.Sequence, *again.Sequence)
		}
		l.tick()
		l.tick()
		after, _ := l.last("one to a peer that is down")
		l.gets(reasonEcho, peer4, gtpu.Echo(true, *after.Sequence))
		if want := []string{peer4 + " true", peer4 + " false", peer4 + " true"}; !slices.Equal(l.told, want) {
			t.Errorf("the cube is told %v, want %v", l.told, want)
		}
		if want := (Messages{EchoRequestsSent: 4, EchoResponses: 2, Invalid: 2}); l.Messages() != want {
			t.Errorf("%+v, want %+v", l.Messages(), want)
		}
	})
}

func TestMessagesAreAnswered(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.gets(reasonEcho, peer4, gtpu.Echo(false, 77))
		if m, to := l.last("Echo"); m.Type != gtpu.EchoResponse || *m.Sequence != 77 || to.String() != peer4+":3000" {
			t.Errorf("%+v to %s", m, to)
		}
		l.gets(reasonUnknownTunnel, peer4, gtpu.Message{Type: gtpu.PDU, TEID: 4711})
		m, _ := l.last("unknown tunnel")
		if teid, address, err := m.Indicated(); err != nil || teid != 4711 || address.String() != local {
			t.Errorf("%d at %s, %v", teid, address, err)
		}
		l.gets(reasonUnknownExtension, peer4, gtpu.Message{Type: gtpu.PDU})
		if m, _ := l.last("unknown extension"); m.Type != gtpu.Supported().Type {
			t.Errorf("%+v", m)
		}
		l.gets(reasonErrorIndication, stranger, gtpu.Indication(1, netip.MustParseAddr(stranger)))
		l.gets(reasonErrorIndication, peer4, gtpu.Indication(1025, netip.MustParseAddr(peer4)))
		if want := []string{peer4 + " 1025"}; !slices.Equal(l.told, want) {
			t.Errorf("the cube is told %v, want %v", l.told, want)
		}
		l.PacketIn(&cube.PacketIn{Reason: reasonEcho, Data: []byte{1}, Length: 1})
		if want := (Messages{EchoAnswered: 1, ErrorsSent: 1, Extensions: 1, ErrorsReceived: 1, Invalid: 2}); l.Messages() != want {
			t.Errorf("%+v, want %+v", l.Messages(), want)
		}
	})
}

func TestEndMarkersAreSentWherePeersWere(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		to := netip.MustParseAddr(peer4)
		marker := func() EndMarker {
			m, err := l.EndMarker(netip.MustParseAddr(local), to, 9)
			l.must(err)
			return m
		}
		l.SendEndMarker(marker())
		if len(l.sent) > 0 {
			t.Error("one is sent to a peer that nobody has heard")
		}
		l.run(frame(peer4, local, gtpu.Echo(false, 1)))
		m := marker()
		l.must(l.Unuse(to, nil))
		l.SendEndMarker(m)
		if m, _ := l.last("End Marker"); m.Type != gtpu.EndMarker || m.TEID != 9 {
			t.Errorf("%+v", m)
		}
	})
}

// TestChangesAreUndone, with what was learned.
func TestChangesAreUndone(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.run(frame(peer4, local, gtpu.Echo(false, 1)))
		before, err := l.States()
		l.must(err)
		var undo cube.Undo
		l.must(l.Unuse(netip.MustParseAddr(peer4), &undo))
		l.must(l.Use(netip.MustParseAddr(stranger), 0, &undo))
		l.must(l.Configure(Settings{Locals: locals(stranger)}, &undo))
		if got := l.run(frame(peer4, local, gtpu.End(1))); got != "other" {
			t.Errorf("a packet to an address that is gone: %s", got)
		}
		l.must(undo.Run())
		after, err := l.States()
		if err != nil || !slices.Equal(after, before) {
			t.Errorf("%+v, %v, want %+v", after, err, before)
		}
		if got := l.run(frame(peer4, local, gtpu.End(1))); got != "drop END_MARKER" || l.settings.EchoRequests != 2 {
			t.Errorf("a packet to an address that is there again: %s, %+v", got, l.settings)
		}
	})
}

// TestPeersOfAnEarlierDaemonStay where they were, if they are wanted.
func TestPeersOfAnEarlierDaemonStay(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.must(l.Use(netip.MustParseAddr(stranger), 0, nil))
		l.run(frame(peer4, local, gtpu.Echo(false, 1)))
		next := New(l.env, Options{})
		l.must(next.Begin(map[netip.Addr]bool{netip.MustParseAddr(peer4): true}))
		l.must(next.Use(netip.MustParseAddr(peer4), 0, nil))
		all, err := next.States()
		if want := (State{Address: netip.MustParseAddr(peer4), Status: Unknown, MAC: peerMAC, Users: 1}); err != nil || !slices.Equal(all, []State{want}) {
			t.Errorf("%+v, %v, want %+v", all, err, want)
		}
		if _, ok, err := next.macs.Get(inet.AddressOf(netip.MustParseAddr(stranger))); ok || err != nil {
			t.Errorf("a peer that is not wanted is still there: %v", err)
		}
	})
}

func TestTunnelsComeFromTheLowestAddressOfTheFamily(t *testing.T) {
	s := Settings{Locals: locals("192.0.2.2", "2001:db8::2", "192.0.2.1", "2001:db8::1")}
	for peer, want := range map[string]string{"10.0.0.1": "192.0.2.1", "2001:db8:1::1": "2001:db8::1"} {
		if got, ok := s.Local(netip.MustParseAddr(peer), 0); !ok || got.String() != want {
			t.Errorf("to %s: %s, %v, want %s", peer, got, ok, want)
		}
	}
	s.Locals = s.Locals[:1]
	if got, ok := s.Local(netip.MustParseAddr("2001:db8:1::1"), 0); ok {
		t.Errorf("without an address of IPv6: %s", got)
	}
}

func TestTunnelsComeFromTheirNetworkInstance(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		n9 := netip.MustParseAddr("192.0.3.1")
		l.must(l.Configure(Settings{Locals: append(locals(local), Address{Address: n9, Instance: "n9"})}, nil))
		got := map[netip.Addr]uint32{}
		var err error
		for address, instance := range l.locals.All(&err) {
			got[address.Addr()] = instance
		}
		if want := (map[netip.Addr]uint32{netip.MustParseAddr(local): 0, n9: Instance("n9")}); err != nil || !maps.Equal(got, want) {
			t.Errorf("programs have %v, %v, want %v", got, err, want)
		}
		to := netip.MustParseAddr(peer4)
		source := func(want string) {
			t.Helper()
			if from, ok := l.Source(to); !ok || from.String() != want {
				t.Errorf("messages come from %s, %v, want %s", from, ok, want)
			}
		}
		source(local)
		var undo cube.Undo
		l.must(l.Use(to, Instance("n9"), &undo))
		source(n9.String())
		l.must(undo.Run())
		source(local)
		if from, ok := l.Source(n9); ok {
			t.Errorf("messages to nobody come from %s", from)
		}
	})
}

// TestNetworkInstancesHaveDifferentNumbers, or are refused.
func TestNetworkInstancesHaveDifferentNumbers(t *testing.T) {
	conf := func(name string) *Config {
		return &Config{Addresses: append(locals(local, peer4), Address{Address: netip.MustParseAddr(stranger), Instance: "n9"}, Address{Address: netip.MustParseAddr("192.0.2.98"), Instance: name})}
	}
	for i := 0; ; i++ {
		name := fmt.Sprint("n", i)
		number := Instance(name)
		if number == 0 || number > 0xffff {
			t.Fatalf("%s has number %d", name, number)
		}
		if number == Instance("n9") && name != "n9" {
			if err := conf(name).Check(); !errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), "choose another name") {
				t.Errorf("%s and n9: %v", name, err)
			}
			break
		}
	}
	for _, name := range []string{"", "n3", "n9"} {
		if err := conf(name).Check(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
