// SPDX-License-Identifier: Apache-2.0

// Package shadow creates the network namespaces of shadow cubes: each port of such a cube is an interface there, a
// veth whose outer end is in the daemon's namespace and belongs to the data plane. The namespaces have names for `ip
// netns`, survive the daemon, and are identified by a mark.
package shadow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/polycube/polycube/internal/nsname"
)

// Options of a Keeper.
type Options struct {
	// Instance is the name of the daemon, "" for the machine's main one.
	Instance string
	Logger   *slog.Logger
	// Prepare prepares a new interface of a namespace, given its index; the calling thread is in the namespace. May be
	// nil.
	Prepare func(ifindex int) error
	// Dir is the directory of namespace names; empty for nsname.Dir.
	Dir string
	// Mounts is the file of the mount namespace in which names are created; empty for the process's own.
	Mounts string
}

// Cube is the owner of a namespace.
type Cube struct {
	Name, UUID string
	Ports      []string
}

// Keeper creates and maintains namespaces. It must be opened, and its methods called, in the daemon's network
// namespace.
type Keeper struct {
	o Options
	// machine is the number of the daemon's own namespace.
	machine uint64

	mu      sync.Mutex
	spaces  map[string]*space // by the cube's UUID
	changed func(uuid string)
	names   *os.File // inotify, nil until there is a namespace to watch
	ctx     context.Context
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// Open creates a keeper without namespaces.
func Open(o Options) (*Keeper, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Dir == "" {
		o.Dir = nsname.Dir
	}
	own, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("shadow: check the daemon's own namespace: %w", err)
	}
	k := &Keeper{o: o, machine: own.Sys().(*syscall.Stat_t).Ino, spaces: map[string]*space{}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k, nil
}

// Start starts reporting: changed is called with a cube's UUID when something in its namespace, or its name, was
// changed by anyone, and once for each existing namespace. It is no longer called once Close has returned.
func (k *Keeper) Start(changed func(uuid string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed = changed
	for uuid, s := range k.spaces {
		k.watch(uuid, s)
	}
}

// Close closes all namespaces and leaves them running.
func (k *Keeper) Close() error {
	k.cancel()
	k.mu.Lock()
	var err error
	if k.names != nil {
		err = k.names.Close()
	}
	for uuid, s := range k.spaces {
		s.close()
		delete(k.spaces, uuid)
	}
	k.mu.Unlock()
	k.done.Wait()
	return err
}

// prefix is the prefix of the names of the instance's namespaces. Names of instances and cubes contain no @, so the
// names of two instances cannot be the same.
func (k *Keeper) prefix() string {
	if k.o.Instance == "" {
		return "pcn-"
	}
	return "pcn-" + k.o.Instance + "@"
}

// Name is the name of a cube's namespace.
func (k *Keeper) Name(cube string) string { return k.prefix() + cube }

func (k *Keeper) path(cube string) string { return filepath.Join(k.o.Dir, k.Name(cube)) }

// mark is the alias of the loopback interface of a cube's namespace: it identifies the namespace after a restart,
// whatever its name. The daemon's namespace is part of it, because tests run several machines side by side.
func (k *Keeper) mark(uuid string) string {
	return fmt.Sprintf("polycube %s@%d %s", k.o.Instance, k.machine, uuid)
}

// Sweep removes the instance's namespaces of cubes for which keep returns false.
func (k *Keeper) Sweep(keep func(uuid string) bool) error {
	paths, err := filepath.Glob(filepath.Join(k.o.Dir, "pcn-*"))
	if err != nil {
		return fmt.Errorf("shadow: look for namespaces: %w", err)
	}
	var errs []error
	for _, path := range paths {
		f, mark, err := openNamed(path)
		if err != nil {
			continue // not a namespace, or gone in the meantime
		}
		uuid, ours := strings.CutPrefix(mark, k.mark(""))
		if ours && !keep(uuid) {
			k.o.Logger.Info("remove the namespace of a deleted cube", "namespace", filepath.Base(path))
			errs = append(errs, removeEnds(f), k.removeName(path))
		}
		_ = f.Close() // nothing was written
	}
	return errors.Join(errs...)
}

// removeName removes a namespace's name; the namespace continues to exist while it is in use.
func (k *Keeper) removeName(path string) error {
	if err := k.atNames(func() error { return nsname.Remove(path) }); err != nil {
		return fmt.Errorf("shadow: %w", err)
	}
	return nil
}
