// SPDX-License-Identifier: Apache-2.0

package efw

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// told waits for a notice.
func told(t *testing.T, s *subscriber, what string) {
	t.Helper()
	select {
	case <-s.changes:
	case <-time.After(patience):
		t.Fatalf("%s is not told", what)
	}
}

// alone waits until cubes of other tests ask no more.
func alone(t *testing.T) {
	t.Helper()
	netns.Eventually(t, patience, func() error {
		if n := Asked(); n > 0 {
			return fmt.Errorf("%d pollers", n)
		}
		return nil
	})
}

func TestSwapsOfTablesAreTold(t *testing.T) {
	n := legacyHost(t)
	n.Run("iptables-legacy", "-A", "INPUT", "-s", "10.0.0.1", "-j", "DROP") // loads the module
	alone(t)
	s, err := followLegacy(n.Do)
	must(t, err)
	defer func() { must(t, s.close()) }()
	if err := swapless(); runtime.GOARCH == "arm64" && errors.Is(err, ebpf.ErrNotSupported) {
		return // it needs Linux 6.4 there
	} else if errors.Is(err, unix.EPERM) || errors.Is(err, ebpf.ErrNotSupported) {
		t.Skipf("this kernel lets no program follow its functions: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	must(t, s.depend(true))
	must(t, s.p.clock.set(24*time.Hour)) // so that nothing but swaps has it look
	for _, command := range []string{"iptables-legacy -A INPUT -s 10.0.0.2 -j DROP", "iptables-legacy -P FORWARD DROP", "iptables-legacy -F"} {
		n.Run("sh", "-c", command)
		told(t, s, command)
		must(t, s.p.clock.set(24*time.Hour))
	}
	n.Run("ip6tables-legacy", "-A", "INPUT", "-s", "fd00::1", "-j", "DROP")
	told(t, s, "another family")
}

// TestTablesAreComparedWhereNothingTellsOfSwaps: a kernel without tables, which loads the module with them later.
func TestTablesAreComparedWhereNothingTellsOfSwaps(t *testing.T) {
	n := legacyHost(t)
	_, missing := followSwaps("no_such_function", func() {})
	if missing == nil {
		t.Fatal("a function that the kernel does not have is followed")
	}
	if !errors.Is(missing, ebpf.ErrNotSupported) {
		t.Errorf("a function that the kernel does not have: got %v, want %v", missing, ebpf.ErrNotSupported)
	}
	alone(t)
	s, err := followLegacy(n.Do)
	must(t, err)
	pollers.Lock()
	was, reason := pollers.swaps, pollers.swapless
	pollers.swaps, pollers.swapless = nil, missing
	pollers.Unlock()
	must(t, was.close())
	must(t, s.depend(true))
	if got := s.p.period(); got != legacyPeriod {
		t.Errorf("the period is %v, want %v", got, legacyPeriod)
	}
	n.Run("iptables-legacy", "-A", "INPUT", "-s", "10.0.0.1", "-j", "DROP")
	told(t, s, "a change")
	netns.Eventually(t, patience, func() error { // it tries again, as the change may have loaded the module
		if got := swapless(); (got == nil) != (reason == nil) {
			return fmt.Errorf("the reason is %s, want %s", fmt.Sprint(got), fmt.Sprint(reason))
		}
		return nil
	})
	must(t, s.close())
	pollers.Lock()
	defer pollers.Unlock()
	if pollers.swaps != nil {
		t.Error("swaps are followed though nobody asks")
	}
}
