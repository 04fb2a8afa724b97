// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Cache stores roots and kernels created from packages, for one architecture. Its entries do not change.
type Cache struct {
	dir, arch string
	progress  io.Writer
	apt       *apt
}

// OpenCache opens the cache in dir.
func OpenCache(dir, arch string, progress io.Writer) (*Cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &Cache{dir: dir, arch: arch, progress: progress}, os.MkdirAll(dir, 0o755)
}

// fill runs a function that changes the cache. One process does at a time; the next one waits.
func (c *Cache) fill(change func() error) error {
	lock, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock the cache: %w", err)
	}
	return change()
}

func (c *Cache) say(format string, args ...any) {
	fmt.Fprintf(c.progress, "kernels: "+format+"\n", args...)
}

// packages is the source of packages. The lists are fetched on first use: a run with a full cache needs no network.
func (c *Cache) packages(ctx context.Context) (*apt, error) {
	if c.apt == nil {
		c.say("asking apt what there is for %s", c.arch)
		a, err := newApt(ctx, filepath.Join(c.dir, "apt-"+c.arch), c.arch)
		if err != nil {
			return nil, err
		}
		c.apt = a
	}
	return c.apt, nil
}

// once returns a file of an entry of the cache, which fill creates in an empty directory if it does not exist.
func (c *Cache) once(name string, fill func(dir string) error, file string) (string, error) {
	entry := filepath.Join(c.dir, name)
	path := filepath.Join(entry, file)
	return path, c.fill(func() error {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		return replace(entry, name, fill)
	})
}

// replace creates a folder completely or not at all.
func replace(entry, name string, fill func(dir string) error) error {
	part := entry + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.Mkdir(part, 0o755); err != nil {
		return err
	}
	if err := fill(part); err != nil {
		return errors.Join(fmt.Errorf("create %s: %w", name, err), os.RemoveAll(part))
	}
	return os.Rename(part, entry)
}

// makeDisk creates a file system with the contents of a directory. It needs no loop device.
func makeDisk(ctx context.Context, from, image, size string) error {
	// Without a journal: the disk exists as long as its machine.
	_, err := output(exec.CommandContext(ctx, "mkfs.ext4", "-q", "-O", "^has_journal", "-d", from, image, size))
	return err
}
