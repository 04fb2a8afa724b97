// SPDX-License-Identifier: Apache-2.0

package bpftest

// The examples of a cube's README, executed: the commands by the real command line, against the
// real API on a socket of the test's own.

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/polycube/polycube/internal/cli"
	"github.com/polycube/polycube/internal/rest"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/test/lint/readme"
)

const command = "polycubectl"

// A test binary is the command line when it is called by its name.
func init() {
	if filepath.Base(os.Args[0]) == command {
		os.Exit(int(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)))
	}
}

// Readme executes the examples of a document, one after the other, in a lab with three hosts, and compares their output
// with the document.
func Readme(t *testing.T, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	examples, err := readme.Parse(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(examples) == 0 {
		t.Fatalf("%s has no examples", file)
	}
	l := New(t, Options{})
	env := l.serve()
	for _, e := range examples {
		cmd := l.Command("bash", "-c", e.Command)
		cmd.Env = env
		printed, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatalf("%s line %d: %v", file, e.Line, err)
		}
		if code := cmd.ProcessState.ExitCode(); code != e.Exit {
			t.Errorf("%s line %d: %s ends with %d, want %d", file, e.Line, e.Command, code, e.Exit)
		}
		if err := e.Match(string(printed)); err != nil {
			t.Errorf("%s %v", file, err)
		}
	}
}

// serve serves the API until the test ends and returns an environment in which the command line
// finds it.
func (l *Lab) serve() []string {
	l.t.Helper()
	dir := l.t.TempDir()
	socket := filepath.Join(dir, "polycubed.sock")
	listener, err := front.ListenUnix(socket)
	if err != nil {
		l.t.Fatal(err)
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, command))
	}
	if err != nil {
		l.t.Fatal(err)
	}
	server := rest.New(rest.Options{Manager: inside{l.manager, l}, Version: "test"})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	l.t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(context.Background()), <-ended); err != nil && !errors.Is(err, http.ErrServerClosed) {
			l.t.Errorf("the API: %v", err)
		}
	})
	return append(slices.Clone(os.Environ()), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir,
		"POLYCUBECTL_SOCKET="+socket)
}

// inside is a topology whose changes are made in the lab's namespace, whichever goroutine calls it.
type inside struct {
	rest.Manager
	lab *Lab
}

func (m inside) Create(ctx context.Context, service, name string, body []byte) error {
	return m.lab.Do(func() error { return m.Manager.Create(ctx, service, name, body) })
}

func (m inside) CreateMany(ctx context.Context, body []byte) error {
	return m.lab.Do(func() error { return m.Manager.CreateMany(ctx, body) })
}

func (m inside) Edit(ctx context.Context, service, name string, op yang.Op, path yang.Path, body []byte) error {
	return m.lab.Do(func() error { return m.Manager.Edit(ctx, service, name, op, path, body) })
}

func (m inside) Delete(ctx context.Context, service, name string) error {
	return m.lab.Do(func() error { return m.Manager.Delete(ctx, service, name) })
}

func (m inside) Action(ctx context.Context, service, name string, path yang.Path, body []byte) (out json.RawMessage, err error) {
	err = m.lab.Do(func() error { out, err = m.Manager.Action(ctx, service, name, path, body); return err })
	return out, err
}

func (m inside) Connect(ctx context.Context, a, b string) error {
	return m.lab.Do(func() error { return m.Manager.Connect(ctx, a, b) })
}

func (m inside) Disconnect(ctx context.Context, a, b string) error {
	return m.lab.Do(func() error { return m.Manager.Disconnect(ctx, a, b) })
}

func (m inside) Attach(ctx context.Context, r topology.AttachRequest) error {
	return m.lab.Do(func() error { return m.Manager.Attach(ctx, r) })
}

func (m inside) Detach(ctx context.Context, name, port string) error {
	return m.lab.Do(func() error { return m.Manager.Detach(ctx, name, port) })
}

func (m inside) Netdevs(ctx context.Context) (out json.RawMessage, err error) {
	err = m.lab.Do(func() error { out, err = m.Manager.Netdevs(ctx); return err })
	return out, err
}

func (m inside) Netdev(ctx context.Context, name string) (out json.RawMessage, err error) {
	err = m.lab.Do(func() error { out, err = m.Manager.Netdev(ctx, name); return err })
	return out, err
}
