// SPDX-License-Identifier: Apache-2.0

// A cube of twelve programs that exchanges eight of them all the time, in a daemon that is killed in the middle of it.

package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func TestProgramsAreExchangedWhileTheDaemonIsKilled(t *testing.T) {
	t.Parallel()
	rounds := 5
	if soak {
		rounds *= 100
	}
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.own = true
			d := m.Start()
			from, to := m.lab.Host("veth1", ""), m.lab.Host("veth2", "")
			m.Do("twelve add tw restless=10 type=" + kind)
			m.Do("tw ports add p1 peer=veth1")
			m.Do("tw ports add p2 peer=veth2")
			s := startStream(t, from, to)
			for range rounds {
				m.twoWays(t, to)
				d.Kill9()
				d = m.Start()
			}
			m.twoWays(t, to)
			if said := d.out.String(); strings.Contains(said, "exchanging the programs") {
				t.Errorf("an exchange was refused:\n%s", said)
			}
			t.Logf("%d frames", s.Stop())
		})
	}
}

// twoWays waits until frames have passed the programs and their replacements, and fails if one passed a mixture.
func (m *machine) twoWays(t *testing.T, to *netns.Node) {
	t.Helper()
	watch := netns.OpenRaw(t, to, netns.Inner)
	seen := map[string]bool{}
	netns.Eventually(t, patience, func() error {
		for range 100 {
			f, err := watch.Recv(isStream, patience)
			if err != nil {
				return err
			}
			seen[string(f[30:42])] = true
		}
		if !seen["abcdefghABCD"] || !seen["01234567ABCD"] {
			return errors.New("only one of the two ways is used")
		}
		return nil
	})
	for way := range seen {
		if way != "abcdefghABCD" && way != "01234567ABCD" {
			t.Errorf("a frame went %q", way)
		}
	}
}
