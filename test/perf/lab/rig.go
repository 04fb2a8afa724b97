// SPDX-License-Identifier: Apache-2.0

// Package lab is where benchmarks run: namespaces of their own, a data plane in them, a generator
// and a counting sink, and the kernel's own way to run a program without a network.
package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
)

// Rig lends the namespaces of the test helpers to a program: it stands where they want a test.
// What they register for the end of the test is done by Close.
type Rig struct {
	testing.TB // never called: what the helpers use is below

	ctx      context.Context
	cancel   context.CancelFunc
	cleanups []func()
	errs     []error
}

// failure is what Fatal ends a part with.
type failure struct{ err error }

// With runs fn with a rig and takes down what fn set up. A Fatal of a helper is its error.
func With(ctx context.Context, fn func(*Rig) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &Rig{}
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer func() { err = errors.Join(err, r.close()) }()
	return r.catch(func() error { return fn(r) })
}

func (r *Rig) catch(fn func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.err
		default:
			panic(p)
		}
	}()
	return fn()
}

// close runs the cleanups in reverse and returns the errors that helpers reported.
func (r *Rig) close() error {
	r.cancel()
	for _, fn := range slices.Backward(r.cleanups) {
		r.errs = append(r.errs, r.catch(func() error { fn(); return nil }))
	}
	return errors.Join(r.errs...)
}

// Cleanup registers fn for the end.
func (r *Rig) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }

// Context ends when the rig does.
func (r *Rig) Context() context.Context { return r.ctx }

// Errorf notes an error; the run goes on.
func (r *Rig) Errorf(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// Fatalf ends the run with an error.
func (r *Rig) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Fatal ends the run with an error.
func (r *Rig) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// Error notes an error; the run goes on.
func (r *Rig) Error(args ...any) { r.errs = append(r.errs, errors.New(fmt.Sprint(args...))) }

// Skip ends the run: what it needs is missing.
func (r *Rig) Skip(args ...any) { r.Fatal(args...) }

// Logf writes a line to the log.
func (r *Rig) Logf(format string, args ...any) { slog.Debug(fmt.Sprintf(format, args...)) }

// Helper does nothing: there is no test whose line could be reported.
func (r *Rig) Helper() {}

// Name of the run, for helpers that name things after the test.
func (r *Rig) Name() string { return "bench" }

// TempDir makes a directory that goes with the rig.
func (r *Rig) TempDir() string {
	dir, err := os.MkdirTemp("", "polycube-bench-")
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
