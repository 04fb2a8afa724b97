// SPDX-License-Identifier: Apache-2.0

package topology

// The slow path and the code of cubes: bounded queues, cubes that do not block each other, code that hangs or panics.

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/test/pace"
)

// eventually polls until ok: another goroutine must do something first.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(pace.Stretch(10 * time.Second)); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func (l *lab) sentPackets() int {
	l.plane.mu.Lock()
	defer l.plane.mu.Unlock()
	return len(l.plane.sent)
}

func TestPacketsReachTheirCubeInOrderAndGoBack(t *testing.T) {
	l := newLab(t)
	l.must(bridges...)
	data := make([]byte, 0, 16)
	trip := func(i int) cube.Trip {
		return cube.Trip{Hops: uint16(i), Netdev: i + 1, FlowHash: uint32(i + 2), Tenant: uint32(i + 3)}
	}
	for i := range 1000 {
		data = fmt.Appendf(data[:0], "packet %d", i) // the reader reuses its buffer after each call
		l.PacketIn(1, &cube.PacketIn{Port: 1, Trip: trip(i), Data: data})
	}
	eventually(t, "1000 packets come back", func() bool { return l.sentPackets() == 1000 })
	for i, p := range l.plane.sent {
		if want := fmt.Sprint("packet ", i); string(p.Data) != want || p.Port != 1 || p.Trip != trip(i) {
			t.Fatalf("packet %d is %q on port %d after %+v, want %q", i, p.Data, p.Port, p.Trip, want)
		}
	}
	l.PacketIn(99, &cube.PacketIn{Data: data})
	l.DatapathLog(99, datapath.LogErr, "nobody")
	if got := l.StrayPackets(); got != 2 {
		t.Errorf("%d packets and lines for nobody, want 2", got)
	}
}

func TestAFloodForOneCubeTakesNothingFromAnother(t *testing.T) {
	l := newLab(t)
	l.must(bridges...)
	release := make(chan struct{})
	var inside atomic.Int32
	l.b.setFail(func(call string) error {
		if call == "br1 PacketIn" {
			inside.Add(1)
			<-release
		}
		return nil
	})
	l.PacketIn(1, &cube.PacketIn{Data: []byte("first")})
	eventually(t, "br1 is busy", func() bool { return inside.Load() == 1 })
	const flood = unit.MailPackets + 500
	for range flood {
		l.PacketIn(1, &cube.PacketIn{Data: []byte("flood")})
	}
	l.PacketIn(2, &cube.PacketIn{Data: []byte("other")})
	eventually(t, "br2 handles its packet", func() bool { return l.sentPackets() == 1 })
	if got := l.ShedPackets("br1"); got != 500 {
		t.Errorf("br1 shed %d packets, want 500", got)
	}
	if got := l.ShedPackets("br2"); got != 0 {
		t.Errorf("br2 shed %d packets", got)
	}
	close(release)
	eventually(t, "br1 works off its queue", func() bool { return l.sentPackets() == 2+unit.MailPackets })
}

func TestAQueueIsBoundedInBytes(t *testing.T) {
	l := newLab(t)
	l.must(bridges[0])
	u := l.view.Load().Units["br1"]
	if err := u.Enter(context.Background()); err != nil {
		t.Fatal(err)
	}
	super := bytes.Repeat([]byte("s"), 64<<10)
	// One batch may already be in processing when the others are queued.
	const n = 3 * unit.MailBytes / (64 << 10)
	for range n {
		l.PacketIn(1, &cube.PacketIn{Data: super})
	}
	shed := l.ShedPackets("br1")
	if shed < n/3 || shed > 2*n/3 {
		t.Errorf("%d of %d superframes were shed, want a third to two thirds", shed, n)
	}
	u.Leave()
	eventually(t, "the rest is handled", func() bool { return l.sentPackets() == n-int(shed) })
	for _, p := range l.plane.sent {
		if !bytes.Equal(p.Data, super) {
			t.Fatal("a superframe was damaged in the queue")
		}
	}
}

func TestAPanicInPacketInIsTheLastOne(t *testing.T) {
	l := newLab(t)
	l.must(bridges...)
	l.b.setFail(failAt("br1 PacketIn", "bad packet"))
	l.PacketIn(1, &cube.PacketIn{Data: []byte("x")})
	eventually(t, "br1 is degraded", func() bool { return l.Degraded("br1") == "PacketIn: bad packet" })
	l.b.setFail(nil)
	l.PacketIn(1, &cube.PacketIn{Data: []byte("y")})
	eventually(t, "it and the next packet are shed", func() bool { return l.ShedPackets("br1") == 2 })
	l.PacketIn(2, &cube.PacketIn{Data: []byte("z")})
	eventually(t, "br2 goes on", func() bool { return l.sentPackets() == 1 })
	l.must(`delete br1`)
}

func TestCodeThatDoesNotReturnStopsNobodyElse(t *testing.T) {
	for _, call := range []string{"br1 Prepare", "br1 Commit", "br1 State", "br1 Action", "br1 PortChanged",
		"br1 PacketIn"} {
		l := stand(t)
		u := l.view.Load().Units["br1"]
		if err := u.EnterGate(t.Context()); err != nil {
			t.Fatal(err)
		}
		u.Patience = 20 * time.Millisecond
		u.LeaveGate()
		release := make(chan struct{})
		l.b.setFail(func(at string) error {
			if at == call {
				<-release
			}
			return nil
		})
		_ = l.do(`patch br1 <<< {"note":"n"}`)
		_, _ = l.read("br1")
		l.PacketIn(1, &cube.PacketIn{Data: []byte("p")})
		_ = l.do(`act br1 fdb flush`, `disconnect br1:p2 veth1`)
		eventually(t, call+" hangs and the cube is degraded", func() bool {
			return strings.Contains(l.Degraded("br1"), "did not return")
		})
		l.must(`patch br2 <<< {"note":"n"}`, `delete br1`)
		close(release)
	}
}

func TestCubesLogAtTheirOwnLevel(t *testing.T) {
	var out bytes.Buffer
	plane := newFakePlane()
	b := &behaviour{}
	m, err := New(Options{Datapath: plane, Services: toyServices(t, b), Netdevs: newFakeNetdevs(),
		Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{Manager: m, t: t, plane: plane, b: b}
	defer l.stop()
	l.must(`create toybridge br <<< {"loglevel":"WARN"}`)
	cases := []struct {
		level string
		log   datapath.LogLevel
		shown bool
	}{
		{"WARN", datapath.LogInfo, false}, {"WARN", datapath.LogWarn, true}, {"TRACE", datapath.LogTrace, true},
		{"OFF", datapath.LogCritical, false}, {"CRITICAL", datapath.LogErr, false}, {"CRITICAL", datapath.LogCritical, true},
	}
	for _, c := range cases {
		l.must(`patch br loglevel <<< "` + c.level + `"`)
		out.Reset()
		l.DatapathLog(1, c.log, "hello from the fast path")
		if got := strings.Contains(out.String(), `msg="hello from the fast path" service=toybridge cube=br`); got != c.shown {
			t.Errorf("level %s, record %d: shown %v, want %v: %s", c.level, c.log, got, c.shown, out.String())
		}
	}
}
