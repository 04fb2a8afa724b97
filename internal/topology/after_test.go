// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// calledOf returns those of some calls that are in the log, in its order.
func (l *lab) calledOf(of ...string) []string {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.b.log), func(call string) bool { return !slices.Contains(of, call) })
}

// TestTheStepsAfterTheFlipComeBeforeTheNextChange: in the background once no packet runs the old programs, and before the
// cube prepares again.
func TestTheStepsAfterTheFlipComeBeforeTheNextChange(t *testing.T) {
	l := newLab(t)
	l.b.after = true
	l.must(`create toybridge br1`)
	netns.Eventually(t, pace.Stretch(10*time.Second), func() error {
		if got := l.calledOf("br1 After"); len(got) != 1 {
			return fmt.Errorf("the steps were carried out %d times", len(got))
		}
		return nil
	})
	l.b.calls()
	for range 20 {
		l.must(`patch br1 <<< {"fdb":{"aging-time":5}}`, `patch br1 <<< {"fdb":{"aging-time":6}}`)
	}
	before := ""
	for _, call := range l.calledOf("br1 Prepare", "br1 Commit", "br1 After") {
		if want := map[string]string{"": "br1 Prepare", "br1 Prepare": "br1 Commit", "br1 Commit": "br1 After", "br1 After": "br1 Prepare"}[before]; call != want {
			t.Fatalf("%s after %s, want %s", call, before, want)
		}
		before = call
	}
}

// TestTheStepsAfterTheFlipCannotRefuseAChange: one that fails is logged, and those of a change that fails are not carried out.
func TestTheStepsAfterTheFlipCannotRefuseAChange(t *testing.T) {
	l := newLab(t)
	l.b.after = true
	l.must(`create toybridge br1`, `patch br1 <<< {"loglevel":"DEBUG"}`)
	failing := func(at string) func(string) error {
		return func(call string) error {
			if call == at {
				return errors.New("no")
			}
			return nil
		}
	}
	l.b.setFail(failing("br1 After"))
	l.must(`patch br1 <<< {"fdb":{"aging-time":5}}`, `patch br1 <<< {"fdb":{"aging-time":6}}`)
	l.wantRead(`6`, "br1", "fdb", "aging-time")
	l.plane.setFail(failing("store"))
	l.b.setFail(nil)
	if err := l.do(`patch br1 <<< {"fdb":{"aging-time":7}}`); err == nil {
		t.Error("the store refuses, and the change is made")
	}
	l.plane.setFail(nil)
	l.b.calls()
	l.must(`patch br1 <<< {"loglevel":"INFO"}`) // would carry out before it what is left
	if got := l.calledOf("br1 Prepare", "br1 After"); len(got) == 0 || got[0] != "br1 Prepare" {
		t.Errorf("after a change that failed: %v", got)
	}
}
