// SPDX-License-Identifier: Apache-2.0

// Package lab is the environment of benchmarks: separate namespaces, a data plane in them, a generator and a counting
// sink, and test runs without a network.
package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Rig adapts the namespaces of the test helpers to a program: it implements the interface of a test. Close runs their
// cleanups.
type Rig struct {
	testing.TB // never called: the methods that the helpers use are below

	ctx      context.Context
	cancel   context.CancelFunc
	cleanups []func()
	errs     []error
}

// failure is the panic with which Fatal ends a part.
type failure struct{ err error }

// With runs fn with a rig and removes what fn set up. A Fatal of a helper is its error.
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

// Errorf records an error; the run continues.
func (r *Rig) Errorf(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// Fatalf ends the run with an error.
func (r *Rig) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Fatal ends the run with an error.
func (r *Rig) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// Error records an error; the run continues.
func (r *Rig) Error(args ...any) { r.errs = append(r.errs, errors.New(fmt.Sprint(args...))) }

// Skip ends the run: a requirement is missing.
func (r *Rig) Skip(args ...any) { r.Fatal(args...) }

// Logf writes a line to the log.
func (r *Rig) Logf(format string, args ...any) { slog.Debug(fmt.Sprintf(format, args...)) }

// Helper does nothing: there is no test whose line could be reported.
func (r *Rig) Helper() {}

// Name returns the name of the run, for helpers that name things after the test.
func (r *Rig) Name() string { return "bench" }

// TempDir creates a directory that is removed with the rig.
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

// AtLeast raises a setting of the whole machine to a value, if it is below, and restores it at the end.
func (r *Rig) AtLeast(path string, value int) error {
	was, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(was))); err == nil && n >= value {
		return nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(value)), 0); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.Cleanup(func() {
		if err := os.WriteFile(path, was, 0); err != nil {
			r.Error(err)
		}
	})
	return nil
}
