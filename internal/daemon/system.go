// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/bpffs"
)

// What the daemon requires from the system before it opens anything.

// wantFiles is the number of descriptors that many cubes need: maps, programs, links.
const wantFiles = 65536

// raiseFileLimit raises RLIMIT_NOFILE as far as possible.
func raiseFileLimit() error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if lim.Cur >= wantFiles {
		return nil
	}
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: wantFiles, Max: max(lim.Max, wantFiles)})
	if errors.Is(err, unix.EPERM) {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(lim.Max, wantFiles), Max: lim.Max})
	}
	if err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	return nil
}

// ensureBPFFS creates the directory for pins. If it is below /sys/fs/bpf and nothing is mounted there, it mounts a BPF
// file system.
func ensureBPFFS(dir string) error {
	if dir == bpffsRoot || strings.HasPrefix(dir, bpffsRoot+"/") {
		if err := mountBPFFS(bpffsRoot); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the directory for pins: %w", err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("check %s: %w", dir, err)
	}
	if uint32(st.Type) != unix.BPF_FS_MAGIC {
		return fmt.Errorf("%s is not in a BPF file system: mount one with \"mount -t bpf bpf %s\", or give another --bpffs", dir, dir)
	}
	var no *bpffs.ReadOnlyError
	if err := bpffs.Check(dir); errors.As(err, &no) {
		return fmt.Errorf("%w: %s", no, no.Remedy())
	} else if err != nil {
		return err
	}
	return checkPinsOwner(dir)
}

// pinsDevice is the number of the BPF file system that a directory is in.
func pinsDevice(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("check %s: %w", dir, err)
	}
	if uint32(fs.Type) != unix.BPF_FS_MAGIC {
		return 0, fmt.Errorf("%s is no longer in a BPF file system", dir)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, fmt.Errorf("check %s: %w", dir, err)
	}
	return st.Dev, nil
}

// checkPinsOwner refuses a directory with pins of another program, because cleanup removes everything in it. Ours has
// the directory core, which the data plane creates first.
func checkPinsOwner(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("check the directory for pins: %w", err)
	}
	if len(entries) == 0 {
		return nil
	}
	for _, e := range entries {
		if e.Name() == "core" && e.IsDir() {
			return nil
		}
	}
	return fmt.Errorf("%s contains pins of another program (%s): give a separate directory", dir, entries[0].Name())
}

func mountBPFFS(at string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return fmt.Errorf("check %s: %w", at, err)
	}
	if uint32(st.Type) == unix.BPF_FS_MAGIC {
		return nil
	}
	if err := unix.Mount("bpf", at, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount a BPF file system at %s: %w", at, err)
	}
	return nil
}

// checkPinsPersist checks that the directory for pins is also what the machine sees under that name: a mount in the
// daemon's own mount namespace ends with it, and so do the pins. root is the machine's root; without permission to
// read it, nothing is reported.
func checkPinsPersist(dir, root string) error {
	var own, machine unix.Stat_t
	if err := unix.Stat(dir, &own); err != nil {
		return nil //nolint:nilerr // reported elsewhere
	}
	err := unix.Stat(filepath.Join(root, dir), &machine)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || err == nil && own.Dev == machine.Dev {
		return nil
	}
	return fmt.Errorf("%s is in a mount namespace that ends with the daemon, and so do the pins: mount a BPF file system there "+
		"before the daemon starts", dir)
}
