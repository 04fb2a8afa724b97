// SPDX-License-Identifier: Apache-2.0

package topology

// Changes on trial: they are taken back unless somebody confirms them, also by the next daemon.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// askedBy is a request of somebody.
func askedBy(who string) context.Context {
	return WithOrigin(context.Background(), history.Origin{Who: who, From: "socket", What: "PATCH /br1"})
}

// note changes the note of br1.
func (l *lab) note(ctx context.Context, text string) error {
	return l.Edit(ctx, "toybridge", "br1", yang.Merge, yang.Path{{Name: "note"}}, []byte(`"`+text+`"`))
}

// waitUntil waits until the note of br1 is a text, and no change is on trial.
func (l *lab) waitUntil(note string) {
	l.t.Helper()
	netns.Eventually(l.t, pace.Stretch(20*time.Second), func() error {
		is, err := l.read("br1", "note")
		if err != nil || is != `"`+note+`"` || l.Trial() != nil {
			return errors.Join(err, errors.New("the note is "+is))
		}
		return nil
	})
}

func newTrialLab(t *testing.T) *lab {
	l := newLab(t, "veth1")
	if err := l.Create(askedBy("anna"), "toybridge", "br1", []byte(`{"note":"first"}`)); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAChangeOnTrialIsTakenBack(t *testing.T) {
	l := newTrialLab(t)
	if err := l.note(OnTrial(askedBy("anna"), time.Second), "second"); err != nil {
		t.Fatal(err)
	}
	l.wantRead(`"second"`, "br1", "note")
	for _, ctx := range []context.Context{askedBy("bob"), OnTrial(askedBy("bob"), time.Hour)} {
		if err := l.note(ctx, "third"); !errors.Is(err, cube.ErrInUse) || !strings.Contains(err.Error(), "a change by anna is on trial") {
			t.Errorf("another change: %v", err)
		}
	}
	if err := l.note(context.Background(), "the daemon's"); err != nil {
		t.Errorf("a change of the daemon itself: %v", err)
	}
	l.waitUntil("first")
	if err := l.note(askedBy("bob"), "third"); err != nil {
		t.Errorf("after the trial: %v", err)
	}
}

func TestAConfirmedChangeStays(t *testing.T) {
	l := newTrialLab(t)
	if err := l.EndTrial(askedBy("anna"), true); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("without a trial: %v", err)
	}
	if err := l.note(OnTrial(askedBy("anna"), time.Hour), "second"); err != nil {
		t.Fatal(err)
	}
	if is := l.Trial(); is == nil || is.Return != 1 || is.Revision != 2 || is.By.Who != "anna" {
		t.Errorf("the trial is %+v", is)
	}
	if err := l.EndTrial(askedBy("bob"), true); err != nil {
		t.Fatal(err)
	}
	l.waitUntil("second")
	l.restart()
	l.waitUntil("second")
	if err := l.note(OnTrial(askedBy("anna"), time.Hour), "third"); err != nil {
		t.Fatal(err)
	}
	if err := l.EndTrial(askedBy("bob"), false); err != nil {
		t.Fatal(err)
	}
	l.waitUntil("second")
	if err := l.note(OnTrial(askedBy("anna"), time.Hour), "fourth"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Rollback(askedBy("bob"), 1, ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	l.waitUntil("first")
}

// TestTheNextDaemonContinuesATrial: one whose time is over, and one that still runs.
func TestTheNextDaemonContinuesATrial(t *testing.T) {
	l := newTrialLab(t)
	for range 2 {
		if err := l.note(OnTrial(askedBy("anna"), time.Hour), "second"); err != nil {
			t.Fatal(err)
		}
		l.restart()
		if l.Trial() == nil {
			t.Fatal("the trial is over")
		}
		if err := l.note(askedBy("bob"), "third"); !errors.Is(err, cube.ErrInUse) {
			t.Errorf("another change: %v", err)
		}
		if err := l.EndTrial(askedBy("bob"), false); err != nil {
			t.Fatal(err)
		}
		l.waitUntil("first")
	}
	if err := l.note(OnTrial(askedBy("anna"), time.Second), "second"); err != nil {
		t.Fatal(err)
	}
	until := l.Trial().Until
	l.stop()
	netns.Eventually(t, pace.Stretch(20*time.Second), func() error {
		if time.Now().Before(until) {
			return errors.New("the trial is not over")
		}
		return nil
	})
	l.start()
	l.waitUntil("first")
}

// TestATrialIsNotCombinedWithOtherChanges: its revision is its own, so nothing else is taken back with it.
func TestATrialIsNotCombinedWithOtherChanges(t *testing.T) {
	l := newTrialLab(t)
	l.must(`create toybridge br2`)
	if err := l.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	go func() { results <- l.note(OnTrial(askedBy("anna"), time.Hour), "second") }()
	go func() {
		results <- l.Edit(askedBy("bob"), "toybridge", "br2", yang.Merge, yang.Path{{Name: "note"}}, []byte(`"other"`))
	}()
	netns.Eventually(t, pace.Stretch(20*time.Second), func() error {
		l.writer.queue.mu.Lock()
		defer l.writer.queue.mu.Unlock()
		if len(l.writer.queue.list) < 2 {
			return errors.New("the changes do not wait")
		}
		return nil
	})
	l.release()
	refused := 0
	for range 2 {
		if err := <-results; errors.Is(err, cube.ErrInUse) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	other := map[bool]string{true: `""`, false: `"other"`}[refused == 1]
	if err := l.EndTrial(askedBy("anna"), false); err != nil {
		t.Fatal(err)
	}
	l.waitUntil("first")
	if is, err := l.read("br2", "note"); err == nil && is != other && refused == 0 {
		t.Errorf("the other change is %s, want %s", is, other)
	}
}
