// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/nsname"
)

// space is a cube's namespace.
type space struct {
	cube string
	// alias is the prefix of the aliases of the outer ends.
	alias string
	path  string
	file  *os.File
	// ends are the interfaces by their names in the namespace.
	ends map[string]end
	stop context.CancelFunc
	// routes follows its routes, nil if not requested.
	routes *routeWatch
}

// end is a port's interface: its index in the namespace, and that of its outer end.
type end struct{ inner, outer int }

// close closes the namespace, which stays.
func (s *space) close() {
	if s.stop != nil {
		s.stop()
	}
	if s.routes != nil {
		s.routes.cancel()
	}
	_ = s.file.Close() // nothing was written
}

// openNamed opens the namespace of a path and returns its mark.
func openNamed(path string) (f *os.File, mark string, err error) {
	// O_NONBLOCK: a FIFO with this name must not block the daemon.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, "", fmt.Errorf("shadow: open %s: %w", path, err)
	}
	f = os.NewFile(uintptr(fd), path)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Type != unix.NSFS_MAGIC {
		return nil, "", errors.Join(fmt.Errorf("shadow: %s: %w", path, errNoNamespace), err, f.Close())
	}
	err = netdev.InNamespace(f, func() error {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			mark = lo.Attrs().Alias
		}
		return err
	})
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("shadow: read the mark of %s: %w", path, err), f.Close())
	}
	return f, mark, nil
}

// errNoNamespace is for a file that is not a namespace.
var errNoNamespace = errors.New("not a network namespace")

// open finds the cube's namespace, or creates it; fresh tells which.
func (k *Keeper) open(c Cube) (s *space, fresh bool, err error) {
	path := k.path(c.Name)
	s = &space{cube: c.Name, alias: alias + c.UUID + " ", path: path, ends: map[string]end{}}
	f, mark, err := openNamed(path)
	switch {
	case err == nil && mark == k.mark(c.UUID):
		s.file = f
		return s, false, nil
	case err == nil && strings.HasPrefix(mark, k.mark("")):
		k.o.Logger.Info("remove the namespace of an earlier cube with the same name", "namespace", filepath.Base(path))
		if err := errors.Join(removeEnds(f), f.Close(), k.removeName(path)); err != nil {
			return nil, false, err
		}
	case err == nil:
		_ = f.Close() // nothing was written
		return nil, false, fmt.Errorf("namespace %s was not created by polycubed: remove it (ip netns del %[1]s) or choose another name: %w",
			filepath.Base(path), cube.ErrInUse)
	case errors.Is(err, errNoNamespace):
		// A leftover name; only an empty file is ours to remove.
		if info, statErr := os.Lstat(path); statErr != nil || !info.Mode().IsRegular() || info.Size() > 0 {
			return nil, false, fmt.Errorf("%s blocks the path: %w: %w", path, err, cube.ErrInUse)
		}
		if err := k.atNames(func() error { return os.Remove(path) }); err != nil {
			return nil, false, fmt.Errorf("shadow: remove %s: %w", path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, err
	}
	s.file, err = k.create(path, k.mark(c.UUID))
	return s, true, err
}

// create creates a namespace with a mark and a name, on a new thread that ends afterwards.
func (k *Keeper) create(path, mark string) (*os.File, error) {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("shadow: the daemon's own namespace: %w", err)
	}
	defer func() { _ = own.Close() }() // nothing was written
	var f *os.File
	err = netdev.InNamespace(own, func() error { // it returns the thread to its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create a namespace: %w", err)
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = errors.Join(netlink.LinkSetAlias(lo, mark), netlink.LinkSetUp(lo))
		}
		if err != nil {
			return fmt.Errorf("loopback: %w", err)
		}
		f, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shadow: %s: %w", path, err)
	}
	if err := k.mount(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// mount gives a namespace its name.
func (k *Keeper) mount(f *os.File, path string) error {
	err := k.atNames(func() error { return nsname.Add(path, fmt.Sprintf("/proc/self/fd/%d", f.Fd())) })
	if err != nil {
		return fmt.Errorf("shadow: name %s: %w", path, err)
	}
	return nil
}

// rename restores a removed name. The namespace itself still exists, with the processes in it.
func (k *Keeper) rename(s *space) error {
	var have, is unix.Stat_t
	if err := unix.Fstat(int(s.file.Fd()), &have); err != nil {
		return fmt.Errorf("shadow: %s: %w", s.path, err)
	}
	err := k.atNames(func() error { return unix.Stat(s.path, &is) })
	if err == nil && is.Ino == have.Ino && is.Dev == have.Dev {
		return nil
	}
	if err == nil {
		return fmt.Errorf("%s blocks the name of the namespace of %s: %w", s.path, s.cube, cube.ErrInUse)
	}
	if err := k.mount(s.file, s.path); err != nil {
		return err
	}
	k.o.Logger.Warn("the name of a cube's namespace was removed, and was restored; to remove it, delete the cube",
		"cube", s.cube, "namespace", filepath.Base(s.path))
	return nil
}
