// SPDX-License-Identifier: Apache-2.0

// A test within a test, which may fail without failing the outer one, and cleans up when it ends: used to search for
// the shortest failing sequence of operations.

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// trial is a separate testing.TB.
type trial struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	failed   bool
	log      strings.Builder
	cleanups []func()
}

// try runs fn as a trial, and returns its log and an error if it failed.
func try(t testing.TB, fn func(t testing.TB)) (string, error) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &trial{TB: t, ctx: ctx}
	r.inside(func() { fn(r) })
	cancel()
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			break
		}
		last := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		r.inside(last)
	}
	if r.Failed() {
		return r.log.String(), errors.New(strings.TrimSpace(r.log.String()))
	}
	return r.log.String(), nil
}

// inside runs fn on a goroutine that FailNow can end.
func (r *trial) inside(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

func (r *trial) Context() context.Context { return r.ctx }
func (r *trial) Helper()                  {}

func (r *trial) Cleanup(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, fn)
}

func (r *trial) TempDir() string {
	dir, err := os.MkdirTemp("", "trial")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			r.Error(err)
		}
	})
	return dir
}

func (r *trial) Log(args ...any)                 { r.write(fmt.Sprintln(args...)) }
func (r *trial) Logf(format string, args ...any) { r.write(fmt.Sprintf(format+"\n", args...)) }

func (r *trial) write(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.WriteString(s)
}

func (r *trial) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *trial) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *trial) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *trial) Error(args ...any) {
	r.Log(args...)
	r.Fail()
}

func (r *trial) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.Fail()
}

func (r *trial) Fatal(args ...any) {
	r.Log(args...)
	r.FailNow()
}

func (r *trial) Fatalf(format string, args ...any) {
	r.Logf(format, args...)
	r.FailNow()
}

func TestATrialFailsAlone(t *testing.T) {
	var order []string
	said, err := try(t, func(t testing.TB) {
		t.Cleanup(func() { order = append(order, "first made, last cleaned") })
		t.Cleanup(func() { order = append(order, "last made") })
		t.Fatal("this is wrong")
	})
	if err == nil || !strings.Contains(said, "this is wrong") || fmt.Sprint(order) != "[last made first made, last cleaned]" {
		t.Errorf("the trial ended with %v, said %q, cleaned %v", err, said, order)
	}
	if _, err := try(t, func(testing.TB) {}); err != nil {
		t.Errorf("a trial of nothing: %v", err)
	}
}
