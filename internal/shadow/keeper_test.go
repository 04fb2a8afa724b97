// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/nsname"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

var labs atomic.Int64

// lab is a machine with a keeper. Its namespaces have names in a directory of the test's own.
type lab struct {
	*netns.Lab
	t    *testing.T
	opts Options
	k    *Keeper
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{Lab: netns.NewLab(t), t: t, opts: Options{Instance: fmt.Sprint("t", labs.Add(1)), Dir: t.TempDir()}}
	l.open()
	t.Cleanup(func() {
		l.Must(func() error { return errors.Join(l.k.Close(), l.k.Sweep(func(string) bool { return false })) })
		if left, err := os.ReadDir(l.opts.Dir); err != nil || len(left) > 0 {
			t.Errorf("names %v are left, %v", left, err)
		}
	})
	return l
}

func (l *lab) open() {
	l.t.Helper()
	l.Must(func() (err error) {
		l.k, err = Open(l.opts)
		return err
	})
}

func (l *lab) ensure(c Cube) Ends {
	l.t.Helper()
	var ends Ends
	l.Must(func() (err error) {
		ends, err = l.k.Ensure(c)
		return err
	})
	return ends
}

// states reads how the ports' interfaces are.
func (l *lab) states(c Cube) map[string]State {
	l.t.Helper()
	var states map[string]State
	l.Must(func() (err error) {
		states, err = l.k.States(c)
		return err
	})
	return states
}

// links counts the interfaces of the machine.
func (l *lab) links() (n int) {
	l.t.Helper()
	l.Must(func() error {
		list, err := netlink.LinkList()
		n = len(list)
		return err
	})
	return n
}

var r1 = Cube{Name: "r1", UUID: "11111111-1111-4111-8111-111111111111", Ports: []string{"p1", "p2"}}

func TestEnsureMakesWhatIsMissingAndUndoRemovesNothingElse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	none := l.links()
	all := l.ensure(r1)
	if len(all.Outer) != 2 || all.Outer["p1"] == 0 || !slices.Equal(all.Made, r1.Ports) || l.links() != none+2 {
		t.Fatalf("made %+v, %d links more", all, l.links()-none)
	}
	again := l.ensure(r1)
	if len(again.Made) > 0 || again.Outer["p1"] != all.Outer["p1"] {
		t.Errorf("again: %+v, want the same and nothing made", again)
	}
	more := r1
	more.Ports = []string{"p1", "p2", "p3"}
	third := l.ensure(more)
	if !slices.Equal(third.Made, []string{"p3"}) {
		t.Errorf("made %v, want p3", third.Made)
	}
	l.Must(third.Undo)
	l.Must(again.Undo)
	if l.links() != none+2 || len(l.states(r1)) != 2 {
		t.Errorf("after undo there are %d links more, want 2", l.links()-none)
	}
	l.ensure(more)
	l.Must(func() error { return l.k.Trim(r1) })
	if l.links() != none+2 || len(l.states(more)) != 2 {
		t.Errorf("after Trim there are %d links more, want 2", l.links()-none)
	}
	l.Must(all.Undo)
	if names, err := os.ReadDir(l.opts.Dir); l.links() != none || len(names) > 0 || err != nil {
		t.Errorf("after undo of all there are %d links more and the names %v", l.links()-none, names)
	}
}

func TestSetAndStates(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ensure(r1)
	mac, up := net.HardwareAddr{2, 0, 0, 0, 0, 9}, true
	a, b, c := netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("10.0.0.2/24"), netip.MustParsePrefix("fd00::1/64")
	set := func(s Setting) {
		t.Helper()
		l.Must(func() error { return l.k.Set(r1.UUID, "p1", s) })
	}
	set(Setting{MAC: mac, Add: []netip.Prefix{a, c}, MTU: 1400, Up: &up})
	set(Setting{MAC: mac, Add: []netip.Prefix{a, b}, Remove: []netip.Prefix{netip.MustParsePrefix("10.9.9.9/32")}}) // what is so already is no error
	got := l.states(r1)["p1"]
	if got.MAC.String() != mac.String() || got.MTU != 1400 || !got.Up || !slices.Equal(got.Addresses, []netip.Prefix{a, b, c}) {
		t.Errorf("p1 is %+v", got)
	}
	set(Setting{Remove: []netip.Prefix{a, b}})
	if got := l.states(r1)["p1"]; !slices.Equal(got.Addresses, []netip.Prefix{c}) || len(l.states(r1)["p2"].Addresses) > 0 {
		t.Errorf("p1 is %+v, want only %s", got, c)
	}
	err := l.Do(func() error { return l.k.Set(r1.UUID, "p1", Setting{MTU: 100000}) })
	if err == nil || !strings.Contains(err.Error(), "MTU 100000") {
		t.Errorf("an MTU of 100000: %v", err)
	}
	for _, s := range []struct{ uuid, port string }{{"nobody", "p1"}, {r1.UUID, "p9"}} {
		if err := l.Do(func() error { return l.k.Set(s.uuid, s.port, Setting{MTU: 1500}) }); err != nil {
			t.Errorf("%v: %v, want nothing to be done", s, err)
		}
	}
}

func TestTheNextKeeperFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ends := l.ensure(r1)
	r2 := Cube{Name: "r2", UUID: "22222222-2222-4222-8222-222222222222"}
	l.ensure(r2)
	l.Must(l.k.Close)
	l.open()
	if now := l.ensure(r1); len(now.Made) > 0 || now.Outer["p2"] != ends.Outer["p2"] {
		t.Errorf("the next keeper has %+v, the first had %+v", now, ends)
	}
	l.Must(func() error { return l.k.Sweep(func(uuid string) bool { return uuid == r1.UUID }) })
	names, err := os.ReadDir(l.opts.Dir)
	if err != nil || len(names) != 1 || names[0].Name() != l.k.Name("r1") {
		t.Errorf("after the sweep there are %v, %v, want r1's", names, err)
	}
	// A cube of the same name that is another one gets a namespace of its own.
	l.Must(l.k.Close)
	l.open()
	other := r1
	other.UUID = r2.UUID
	if now := l.ensure(other); len(now.Made) != 2 {
		t.Errorf("another cube has found %+v", now)
	}
}

func TestOwnerKnowsOuterEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ends := l.ensure(r1)
	if got := l.k.Owner(ends.Outer["p2"]); got != r1.UUID {
		t.Errorf("the outer end of p2 belongs to %q", got)
	}
	if got := l.k.Owner(1); got != "" {
		t.Errorf("the loopback belongs to %q", got)
	}
	l.Must(func() error { return l.k.Remove(r1.UUID) })
	if got := l.k.Owner(ends.Outer["p2"]); got != "" {
		t.Errorf("what is gone belongs to %q", got)
	}
}

func TestWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	path := l.k.path("r1")
	refused := func(what string) {
		t.Helper()
		err := l.Do(func() error {
			_, err := l.k.Ensure(r1)
			return err
		})
		if !errors.Is(err, cube.ErrInUse) {
			t.Errorf("%s: %v, want %v", what, err, cube.ErrInUse)
		}
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a file")
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	refused("a directory")
	if err := errors.Join(os.Remove(path), os.Symlink("/proc/self/ns/net", path)); err != nil {
		t.Fatal(err)
	}
	if err := l.Do(func() error { _, err := l.k.Ensure(r1); return err }); err == nil {
		t.Error("a symbolic link to a namespace was taken")
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o400)); err != nil {
		t.Fatal(err)
	}
	l.Host(OuterName("r1", "p1"), "") // somebody else's interface has the plain name
	ends := l.ensure(r1)              // an empty file is what a crash leaves
	l.Must(func() error {
		link, err := netlink.LinkByIndex(ends.Outer["p1"])
		if err == nil && link.Attrs().Name != otherOuterName(l.opts.Instance, "r1", "p1") {
			err = fmt.Errorf("the outer end is %s", link.Attrs().Name)
		}
		return err
	})
}

func TestChangesAreReported(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ensure(r1)
	reports := make(chan string, 1000)
	l.Must(func() error {
		l.k.Start(func(uuid string) { reports <- uuid })
		return nil
	})
	reported := func(what string) {
		t.Helper()
		select {
		case uuid := <-reports:
			if uuid != r1.UUID {
				t.Errorf("%s: reported %s", what, uuid)
			}
		case <-time.After(pace.Stretch(15 * time.Second)):
			t.Fatalf("%s is not reported", what)
		}
		for quiet := false; !quiet; {
			select {
			case <-reports:
			case <-time.After(3 * pause):
				quiet = true
			}
		}
	}
	reported("the start")
	inside := func(line string) {
		t.Helper()
		words := append([]string{"--net=" + l.k.path("r1")}, strings.Fields(line)...)
		if out, err := exec.Command("nsenter", words...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	inside("ip addr add 10.0.0.1/24 dev p1")
	reported("an address")
	inside("ip link set p2 mtu 1300")
	reported("an MTU")
	inside("ip link del p2")
	reported("an interface that is gone")
	if ends := l.ensure(r1); !slices.Equal(ends.Made, []string{"p2"}) {
		t.Errorf("made %v, want p2", ends.Made)
	}
	reported("an interface that is back")
	if err := nsname.Remove(l.k.path("r1")); err != nil {
		t.Fatal(err)
	}
	reported("a name that is gone")
	if ends := l.ensure(r1); len(ends.Made) > 0 {
		t.Errorf("made %v, want the name alone", ends.Made)
	}
	inside("ip link show p2")
	l.Must(l.k.Close)
	for len(reports) > 0 { // of before
		<-reports
	}
	select {
	case <-reports:
		t.Error("a report after Close")
	case <-time.After(3 * pause):
	}
	l.open()
}

// TestNamesOfTheMachine: a daemon in a mount namespace of its own makes the names where it is told to, and takes them away there.
func TestNamesOfTheMachine(t *testing.T) {
	l := newLab(t)
	machine, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	mounts := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), machine.Fd())
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends here
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_NEWNET), unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")); err != nil {
			result <- err
			return
		}
		k, err := Open(Options{Instance: l.opts.Instance, Dir: l.opts.Dir, Mounts: mounts})
		if err == nil {
			_, err = k.Ensure(Cube{Name: "r1", UUID: "u1", Ports: []string{"p1"}})
		}
		if _, _, missing := openNamed(k.path("r1")); err == nil && !errors.Is(missing, errNoNamespace) {
			err = errors.Join(errors.New("the name is a mount here, too"), missing)
		}
		result <- errors.Join(err, k.Close())
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	f, _, err := openNamed(l.k.path("r1"))
	if err != nil {
		t.Fatalf("the machine does not see the name: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	outside := &Keeper{o: Options{Mounts: mounts}}
	if err := outside.removeName(l.k.path("r1")); err != nil {
		t.Error(err)
	}
	if err := (&Keeper{o: Options{Mounts: "/dev/null"}}).removeName("/none"); err == nil || !strings.Contains(err.Error(), "mount namespace /dev/null") {
		t.Errorf("a mount namespace that is none: %v", err)
	}
}
