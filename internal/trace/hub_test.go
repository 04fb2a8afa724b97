// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/test/pkt"
)

// machine is a topology and a data plane of two cubes: br1 (1) and th1 (2, transparent).
type machine struct {
	mu      sync.Mutex
	linked  *link.Trace
	relinks int
	refuse  error
	lost    uint64
}

func (m *machine) Trace(_ context.Context, t *link.Trace) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t != nil && m.refuse != nil {
		return m.refuse
	}
	m.linked, m.relinks = t, m.relinks+1
	return nil
}

func (m *machine) sessions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.linked == nil {
		return 0
	}
	return len(m.linked.Sessions)
}

func (m *machine) CubeID(name string) (datapath.CubeID, error) {
	for id, n := range cubes {
		if n == name {
			return id, nil
		}
	}
	return 0, fmt.Errorf("cube %s: %w", name, cube.ErrNotFound)
}

var cubes = map[datapath.CubeID]string{1: "br1", 2: "th1"}

func (m *machine) CubeName(id datapath.CubeID) string { return cubes[id] }
func (m *machine) PortName(id datapath.CubeID, index uint16) string {
	if id == 2 {
		return ""
	}
	return fmt.Sprint("p", index)
}
func (m *machine) CapturePlace(place string) (link.Capture, error) {
	if place != "br1:p1" {
		return link.Capture{}, cube.ErrNotFound
	}
	return link.Capture{Cube: 1, Port: 1}, nil
}
func (m *machine) StationAt(_ context.Context, _ string, egress bool) net.HardwareAddr {
	if egress {
		return nil
	}
	return net.HardwareAddr{2, 0, 0, 0, 0, 0xcc}
}
func (m *machine) TraceUntil(time.Duration) error { return nil }
func (m *machine) TraceLost() (uint64, error)     { return m.lost, nil }
func (m *machine) CubeReasons(datapath.CubeID) (drops, up []string) {
	return []string{"too-big"}, []string{"unknown-neighbour"}
}

func newTestHub() (*Hub, *machine) {
	m := &machine{}
	return NewHub(m, m, slog.New(slog.DiscardHandler)), m
}

func open(t *testing.T, h *Hub, r Request) *Session {
	t.Helper()
	s, err := h.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var frame = pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(20).Bytes()

// aStep is a step of cube br1 for all sessions.
func aStep(change func(*slowpath.Step)) *slowpath.Step {
	s := &slowpath.Step{Time: time.Second, Cube: 1, InPort: 1, OutPort: 2, ID: 0xab, Stage: link.StageProgram, Sessions: 0xf,
		Length: len(frame), Data: frame}
	change(s)
	return s
}

func TestStepsAreNamed(t *testing.T) {
	const what = " 10.0.0.1.1 > 10.0.0.2.2: UDP, length 62"
	for want, change := range map[string]func(*slowpath.Step){
		"br1:p1 ingress/0 send p2":                    func(s *slowpath.Step) { s.Verdict = 1 },
		"br1:p1 ingress/0 pass":                       func(s *slowpath.Step) {},
		"br1:p2 egress/0 pass":                        func(s *slowpath.Step) { s.Egress = true },
		"br1:p1 ingress/3 flood":                      func(s *slowpath.Step) { s.Verdict, s.Program = 3, 3 },
		"br1:p1 ingress/0 drop too-big":               func(s *slowpath.Step) { s.Verdict, s.Reason = 2, 32 },
		"br1:p1 ingress/0 drop unspecified":           func(s *slowpath.Step) { s.Verdict, s.Reason = 2, 7 },
		"br1:p1 ingress/0 slowpath unknown-neighbour": func(s *slowpath.Step) { s.Verdict, s.Reason = 4, 32 },
		"br1:p1 ingress/0 slowpath 40":                func(s *slowpath.Step) { s.Verdict, s.Reason = 4, 40 },
		"br1:p1 ingress/0 call 7":                     func(s *slowpath.Step) { s.Verdict, s.Reason = 5, 7 },
		"br1:p1 ingress/0 namespace p2":               func(s *slowpath.Step) { s.Verdict = 6 },
		"br1:p1 ingress/0 offer p2":                   func(s *slowpath.Step) { s.Verdict = 9 },
		"th1: egress/0 turn":                          func(s *slowpath.Step) { s.Cube, s.Egress, s.Verdict = 2, true, 8 },
		"th1: ingress/0 redirect 3":                   func(s *slowpath.Step) { s.Cube, s.Verdict, s.OutPort = 2, 10, 3 },
		"th1: ingress/0 redirect neighbour":           func(s *slowpath.Step) { s.Cube, s.Verdict, s.OutPort = 2, 10, 0xffff },
		"br1:p1 ingress/0 bad-verdict 99":             func(s *slowpath.Step) { s.Verdict = 99 },
		"th1: ingress/0 pass":                         func(s *slowpath.Step) { s.Cube = 2 },
		"br1: /0 drop no-peer":                        func(s *slowpath.Step) { s.Stage, s.Extra = link.StageEnd, 4 },
		"framework: /0 drop no-program":               func(s *slowpath.Step) { s.Stage, s.Cube, s.Extra = link.StageEnd, 0, 9 },
		"br1: /0 leave lo":                            func(s *slowpath.Step) { s.Stage, s.Extra = link.StageLeave, 1 },
		"br1: /0 leave netdev 99999":                  func(s *slowpath.Step) { s.Stage, s.Extra = link.StageLeave, 99999 },
	} {
		h, _ := newTestHub()
		s := open(t, h, Request{})
		h.Trace(aStep(change))
		l, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := strings.TrimSpace(fmt.Sprintf("%s:%s %s/%d %s %s%s", l.Cube, l.Port, l.Direction, l.Program, l.Verdict, l.Reason, l.Out))
		if got != want || l.Summary != strings.TrimSpace(what) || l.Packet != "00ab" || !l.Time.Equal(s.epoch.Add(time.Second)) {
			t.Errorf("%q %+v, want %q", got, l, want)
		}
	}
}

func TestSessionsComeAndGo(t *testing.T) {
	h, m := newTestHub()
	var all []*Session
	for range link.MaxSessions {
		all = append(all, open(t, h, Request{}))
	}
	if _, err := h.Open(t.Context(), Request{}); !errors.Is(err, cube.ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	if err := all[1].Close(); err != nil || m.sessions() != link.MaxSessions-1 {
		t.Errorf("%v, %d sessions are linked", err, m.sessions())
	}
	if again := open(t, h, Request{}); again.want.Bit != 1 {
		t.Errorf("the new session has bit %d, 1 is free", again.want.Bit)
	}
	if err := h.Close(); err != nil || m.sessions() != 0 {
		t.Errorf("%v, %d sessions are linked after the end", err, m.sessions())
	}
	if _, err := all[0].Next(t.Context()); !errors.Is(err, io.EOF) || all[0].Summary().End != "the daemon is stopping" {
		t.Errorf("%v, %+v", err, all[0].Summary())
	}
	if _, err := h.Open(t.Context(), Request{}); err == nil {
		t.Error("a session began after the end")
	}
}

func TestASessionThatCannotBeLinkedDoesNotExist(t *testing.T) {
	h, m := newTestHub()
	m.refuse = cube.ErrFull
	for range 2 * link.MaxSessions {
		if _, err := h.Open(t.Context(), Request{}); !errors.Is(err, cube.ErrFull) || errors.Is(err, ErrBusy) {
			t.Fatalf("%v, want that of the data plane", err)
		}
	}
}

func TestRequestsAreChecked(t *testing.T) {
	h, m := newTestHub()
	for name, r := range map[string]Request{
		"count": {Count: -1}, "many": {Count: MaxSteps + 1}, "time": {Time: -1}, "long": {Time: MaxTime + 1},
		"cube": {Cube: "nobody"}, "place": {Capture: "nowhere"}, "filter": {Filter: "bogus foo"},
	} {
		if _, err := h.Open(t.Context(), r); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if m.relinks != 0 {
		t.Errorf("%d relinks for requests that are wrong", m.relinks)
	}
}

func TestASlowReaderLosesStepsAndKnowsHowMany(t *testing.T) {
	h, m := newTestHub()
	s := open(t, h, Request{Count: queueSteps + 5})
	m.lost = 3
	for range queueSteps + 10 {
		h.Trace(aStep(func(*slowpath.Step) {}))
	}
	for range queueSteps {
		if _, err := s.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Summary(); got.Lost != 10 || got.LostInRing != 3 || got.Steps != queueSteps {
		t.Errorf("%+v, want 10 lost, 3 in the ring", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with an empty queue: %v", err)
	}
}

func TestASessionEndsWithItsTimeAndItsNumber(t *testing.T) {
	h, _ := newTestHub()
	short := open(t, h, Request{Time: time.Millisecond})
	if _, err := short.Next(t.Context()); !errors.Is(err, io.EOF) || short.Summary().End != errTime.Error() {
		t.Errorf("%v, %+v", err, short.Summary())
	}
	two := open(t, h, Request{Count: 2})
	for range 5 {
		h.Trace(aStep(func(*slowpath.Step) {}))
	}
	for want := range 2 {
		if _, err := two.Next(t.Context()); err != nil {
			t.Fatalf("step %d: %v", want, err)
		}
	}
	if _, err := two.Next(t.Context()); !errors.Is(err, io.EOF) || two.Summary().End != errCount.Error() {
		t.Errorf("%v, %+v", err, two.Summary())
	}
}

func TestASessionOfOneCubeSeesNoOther(t *testing.T) {
	h, _ := newTestHub()
	s := open(t, h, Request{Cube: "th1", Count: 1})
	h.Trace(aStep(func(*slowpath.Step) {}))
	h.Trace(aStep(func(s *slowpath.Step) { s.Cube = 2 }))
	if l, err := s.Next(t.Context()); err != nil || l.Cube != "th1" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestCapturedPacketsHaveTheirFate(t *testing.T) {
	h, _ := newTestHub()
	s := open(t, h, Request{Capture: "br1:p1", Count: 4})
	in := func(id uint16) func(*slowpath.Step) {
		return func(s *slowpath.Step) { s.Stage, s.ID, s.Extra = link.StageIn, id, 1 }
	}
	h.Trace(aStep(in(1)))
	h.Trace(aStep(in(2)))
	h.Trace(aStep(func(s *slowpath.Step) { s.ID, s.Verdict, s.Reason = 2, 5, 3 })) // goes on in program 3
	h.Trace(aStep(func(s *slowpath.Step) { s.ID, s.Verdict, s.Reason, s.Program = 2, 2, 32, 3 }))
	h.Trace(aStep(func(s *slowpath.Step) { s.ID, s.Verdict = 1, 1 }))
	h.Trace(aStep(func(s *slowpath.Step) { s.Stage, s.Egress, s.Extra = link.StageOut, true, 1 }))
	h.Trace(aStep(in(9))) // whose fate is lost
	var file bytes.Buffer
	f, err := NewFile(&file, "br1:p1", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"br1:p1 true drop too-big", "br1:p1 true send p2", "br1:p1 false sent", "br1:p1 true unknown"} {
		p, err := s.NextPacket(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %t %s", p.place(), p.In, p.fate()); got != want || !bytes.Equal(p.Data, frame) {
			t.Errorf("%s, want %s", got, want)
		}
		if err := f.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.NextPacket(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("behind the last: %v", err)
	}
	if err := f.End(s.Summary()); err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	data, ci, opts, err := r.ReadPacketDataWithOptions()
	if err != nil || !bytes.Equal(data, frame) || !ci.Timestamp.Equal(s.epoch.Add(time.Second)) ||
		strings.Join(opts.Comments, ";") != "port br1:p1;fate drop too-big" || opts.Flags.Direction != pcapgo.NgEpbFlagDirectionInbound {
		t.Errorf("the file begins with %v %+v %+v, %v", ci, opts.Comments, opts.Flags, err)
	}
}

// TestSessionsSideBySide is for the race detector.
func TestSessionsSideBySide(t *testing.T) {
	h, m := newTestHub()
	stop := make(chan struct{})
	var ring, clients sync.WaitGroup
	ring.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				h.Trace(aStep(func(*slowpath.Step) {}))
			}
		}
	})
	for range link.MaxSessions {
		clients.Go(func() {
			for range 20 {
				s, err := h.Open(context.Background(), Request{Count: 3})
				if err != nil {
					t.Error(err)
					return
				}
				for {
					if _, err := s.Next(context.Background()); err != nil {
						break
					}
				}
				s.Summary()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	ring.Wait()
	if m.sessions() != 0 {
		t.Errorf("%d sessions are linked at the end", m.sessions())
	}
}
