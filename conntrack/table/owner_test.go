// SPDX-License-Identifier: Apache-2.0

package table

import (
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
)

func TestAnotherOwnerOfAZoneFindsItEmpty(t *testing.T) {
	l := newLab(t, tableTC, 1024)
	own := func(owner string, want int) {
		t.Helper()
		if err := l.Own(5, owner); err != nil || l.Count(5) != want {
			t.Errorf("%s owns %d connections, %v, want %d", owner, l.Count(5), err, want)
		}
	}
	l.run("pass", 5, 0, 100)
	l.run("pass", 6, 0, 50)
	own("a", 0)
	l.run("pass", 5, 0, 100)
	l.SetTimeouts(5, conntrack.Timeouts{conntrack.UDP: time.Nanosecond})
	l.Limit(5, 10)
	own("a", 100)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.open() // as another daemon
	l.SetTimeouts(5, conntrack.Timeouts{conntrack.UDP: time.Nanosecond})
	own("a", 100)
	if got := l.run("pass", 5, 100, 101); got.Refused[limit] != 1 {
		t.Errorf("the limit after a restart: %v", got.Refused)
	}
	own("b", 0)
	if got := l.run("pass", 5, 0, 100); got.Opened != 100 || l.Count(6) != 50 {
		t.Errorf("%d are opened without the old limit, want 100: %v; another zone has %d", got.Opened, got.Refused, l.Count(6))
	}
	if n, err := l.Sweep(0); n != 0 || err != nil || l.check() != 150 {
		t.Errorf("%d expire by the old timeouts, %v", n, err)
	}
	l.Limit(5, 10)
	own("", 0)
	if n := l.check(); n != 50 {
		t.Errorf("%d connections are left, want the 50 of another zone", n)
	}
	if got := l.run("pass", 5, 0, 100); got.Opened != 100 {
		t.Errorf("%d are opened without the old limit, want 100: %v", got.Opened, got.Refused)
	}
	own("b", 0)
}
