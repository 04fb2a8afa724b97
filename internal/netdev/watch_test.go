// SPDX-License-Identifier: Apache-2.0

// Events are asked for by doing what causes them; lost messages by a socket that loses them.

package netdev

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

var eventDeadline = pace.Stretch(15 * time.Second)

// start watches in the lab until the test ends and returns the events after Synced, and those before.
func start(t *testing.T, lab *netns.Lab) (events <-chan Event, initial []Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ch, done := make(chan Event, 10_000), make(chan error, 1)
	go func() {
		done <- lab.Do(func() error { return Watch(ctx, func(e Event) { ch <- e }) })
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Watch: %v, want nil after the context is done", err)
			}
		case <-time.After(eventDeadline):
			t.Error("Watch goes on after its context is done")
		}
	})
	for {
		e := next(t, ch)
		if e.Kind == Synced {
			return ch, initial
		}
		initial = append(initial, e)
	}
}

func next(t *testing.T, ch <-chan Event) Event {
	t.Helper()
	select {
	case e := <-ch:
		return e
	case <-time.After(eventDeadline):
		t.Fatal("no event")
		panic("unreachable")
	}
}

// await returns the first event that accept takes.
func await(t *testing.T, ch <-chan Event, what string, accept func(Event) bool) Event {
	t.Helper()
	deadline := time.After(eventDeadline)
	var others []string
	for {
		select {
		case e := <-ch:
			if accept(e) {
				return e
			}
			others = append(others, fmt.Sprintf("%v %+v", e.Kind, e.Info))
		case <-deadline:
			t.Fatalf("%s: no such event, but:\n%s", what, strings.Join(others, "\n"))
		}
	}
}

func changed(e Event, name string) bool {
	return e.Kind == Changed && e.Info.Name == name && e.Old != nil
}

func TestWatchTellsEveryChange(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "old0", "type", "bridge")
	events, initial := start(t, lab)
	if !slices.ContainsFunc(initial, func(e Event) bool { return e.Kind == Added && e.Info.Name == "old0" }) {
		t.Errorf("old0 is not among the first: %v", initial)
	}
	prefix := netip.MustParsePrefix("10.0.0.1/24")
	for _, c := range []struct {
		ip     string
		accept func(Event) bool
	}{
		{"link add a0 type veth peer name b0", func(e Event) bool { return e.Kind == Added && e.Info.Name == "a0" && !e.Info.Up }},
		{"link set a0 up", func(e Event) bool { return changed(e, "a0") && e.Info.Up && !e.Old.Up }},
		{"link set b0 up", func(e Event) bool { return changed(e, "a0") && e.Info.Carrier && !e.Old.Carrier }},
		{"link set a0 mtu 1300", func(e Event) bool { return changed(e, "a0") && e.Info.MTU == 1300 && e.Old.MTU == 1500 }},
		{"link set a0 address 02:00:00:00:00:77", func(e Event) bool {
			return changed(e, "a0") && e.Info.MAC.String() == "02:00:00:00:00:77" && e.Old.MAC.String() != e.Info.MAC.String()
		}},
		{"addr add 10.0.0.1/24 dev a0", func(e Event) bool {
			return changed(e, "a0") && slices.Contains(e.Info.Addresses, prefix) && len(e.Old.Addresses) == 0
		}},
		{"addr del 10.0.0.1/24 dev a0", func(e Event) bool {
			return changed(e, "a0") && len(e.Info.Addresses) == 0 && slices.Contains(e.Old.Addresses, prefix)
		}},
		{"link set a0 down", func(e Event) bool { return changed(e, "a0") && !e.Info.Up && e.Old.Up }},
		{"link set a0 name c0", func(e Event) bool { return changed(e, "c0") && e.Old.Name == "a0" && e.Info.Index == e.Old.Index }},
		{"link set b0 master old0", func(Event) bool { return true }}, // the bridge gets the MAC of its port
		{"link set b0 nomaster", func(Event) bool { return true }},
		{"link del c0", func(e Event) bool { return e.Kind == Removed && e.Info.Name == "c0" && e.Info.MTU == 1300 }},
	} {
		lab.Run("ip", strings.Fields(c.ip)...)
		await(t, events, c.ip, c.accept)
	}
	// Joining and leaving the bridge is no removal: b0 is removed once, by now.
	removed := 0
	lab.Run("ip", "link", "add", "end0", "type", "bridge")
	await(t, events, "end0", func(e Event) bool {
		if e.Kind == Removed && e.Info.Name == "b0" {
			removed++
		}
		return e.Kind == Added && e.Info.Name == "end0"
	})
	if removed > 1 {
		t.Errorf("b0 was removed %d times", removed)
	}
}

func TestWatchTellsOfDevicesThatMoveToAnotherNamespace(t *testing.T) {
	lab, other := netns.NewLab(t), netns.New(t)
	lab.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
	events, _ := start(t, lab)
	lab.Run("ip", "link", "set", "a0", "netns", other.Name)
	await(t, events, "a0 leaves", func(e Event) bool { return e.Kind == Removed && e.Info.Name == "a0" })
	other.Run("ip", "link", "set", "a0", "netns", lab.Name)
	await(t, events, "a0 comes back", func(e Event) bool { return e.Kind == Added && e.Info.Name == "a0" })
}

// TestNothingIsMissedWhenMessagesAreLost keeps the receiver busy until the kernel drops messages.
// TestACarrierThatFlapsIsTold: the kernel tells of it late, when it is as it was.
func TestACarrierThatFlapsIsTold(t *testing.T) {
	lab := netns.NewLab(t)
	for _, line := range []string{"link add a0 type veth peer name b0", "link set a0 up", "link set b0 up"} {
		lab.Run("ip", strings.Fields(line)...)
	}
	events, _ := start(t, lab)
	for range 5 {
		cmd := lab.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader("link set dev b0 down\nlink set dev b0 up\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for told := false; !told; {
			e := next(t, events)
			told = e.Kind == Changed && e.Info.Name == "a0" && e.Info.Carrier && (e.Flapped || !e.Old.Carrier)
		}
	}
}

func TestNothingIsMissedWhenMessagesAreLost(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "gone0", "type", "bridge")
	hold, ch, done := make(chan struct{}), make(chan Event, 100_000), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		done <- lab.Do(func() error {
			return Watch(ctx, func(e Event) {
				if e.Kind == Synced {
					ch <- e
					<-hold
				}
				ch <- e
			})
		})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	await(t, ch, "synced", func(e Event) bool { return e.Kind == Synced })
	lab.Run("ip", "link", "add", "new0", "type", "bridge")
	lab.Run("ip", "link", "del", "gone0")
	lab.Run("bash", "-c", `for i in $(seq 1 6000); do echo "link set new0 mtu $((1300 + i % 100))"; done | ip -batch -`)
	lab.Run("ip", "link", "set", "new0", "name", "newer0")
	lab.Run("ip", "link", "set", "newer0", "mtu", "1234")
	close(hold)
	gone := false
	await(t, ch, "newer0", func(e Event) bool {
		gone = gone || e.Kind == Removed && e.Info.Name == "gone0"
		return e.Info.Name == "newer0" && e.Info.MTU == 1234
	})
	if !gone {
		t.Error("the removal of gone0 was not told")
	}
}

// table is a watcher over listings that the test gives.
func table(listings ...[]Info) (*watcher, *[]string) {
	var told []string
	w := &watcher{known: map[int]Info{}, drain: func() error { told = append(told, "drained"); return nil }}
	w.speed = func(int) uint32 { return 0 }
	w.emit = func(e Event) {
		s := e.Kind.String()
		if e.Kind != Synced {
			s += " " + e.Info.Name
		}
		if e.Old != nil {
			s += " was " + e.Old.Name
		}
		told = append(told, s)
	}
	w.list = func() ([]Info, error) {
		if len(listings) == 0 {
			return nil, errors.New("no more listings")
		}
		l := listings[0]
		listings = listings[1:]
		return l, nil
	}
	return w, &told
}

func TestLostMessagesAreMadeUpByAListing(t *testing.T) {
	dev := func(index int, name string) Info { return Info{Index: index, Name: name, MTU: 1500} }
	w, told := table([]Info{dev(1, "lo"), dev(2, "a"), dev(3, "b"), dev(4, "same")}, []Info{dev(1, "lo"), dev(3, "renamed"), dev(4, "same"), dev(5, "a")})
	calls := 0
	errEnd := errors.New("end")
	w.receive = func() ([]syscall.NetlinkMessage, *unix.SockaddrNetlink, error) {
		if calls++; calls == 1 {
			return nil, nil, unix.ENOBUFS
		}
		return nil, nil, errEnd
	}
	if err := w.run(context.Background()); !errors.Is(err, errEnd) {
		t.Fatalf("run: %v", err)
	}
	want := "added lo, added a, added b, added same, synced, drained, removed a, changed renamed was b, added a"
	if got := strings.Join(*told, ", "); got != want {
		t.Errorf("told  %s\nwant %s", got, want)
	}
}

func TestMessagesFromOtherProcessesAreIgnored(t *testing.T) {
	w, told := table(nil)
	calls := 0
	errEnd := errors.New("end")
	w.receive = func() ([]syscall.NetlinkMessage, *unix.SockaddrNetlink, error) {
		if calls++; calls > 1 {
			return nil, nil, errEnd
		}
		forged := syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWADDR}, Data: []byte{1}}
		return []syscall.NetlinkMessage{forged}, &unix.SockaddrNetlink{Pid: 4711}, nil
	}
	if err := w.run(context.Background()); !errors.Is(err, errEnd) || strings.Join(*told, ",") != "synced" {
		t.Errorf("%v, told %v; want the message ignored", err, *told)
	}
}
