// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// Pinned maps, and directories of pins.

// Open opens the map pinned at path, or creates and pins it. A pinned map of another
// layout is refused.
func Open(path string, spec *ebpf.MapSpec) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	switch {
	case err == nil:
		if err := spec.Compatible(m); err != nil {
			_ = m.Close()
			return nil, fmt.Errorf("map %s was created by another version of polycubed and has another layout (%w); "+
				"run `polycubed cleanup` to remove it with everything else in the kernel; the configuration stays", path, err)
		}
		return m, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open map %s: %w", path, err)
	}
	s := spec.Copy()
	s.Pinning = ebpf.PinNone
	if m, err = New(s); err != nil {
		return nil, fmt.Errorf("create map %s: %w", spec.Name, err)
	}
	if err := m.Pin(path); err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("pin map %s: %w", spec.Name, err)
	}
	return m, nil
}

// OpenAnyLayout opens the map pinned at path, whatever its layout, or creates and pins it.
func OpenAnyLayout(path string, spec *ebpf.MapSpec) (m *ebpf.Map, fresh bool, err error) {
	m, err = ebpf.LoadPinnedMap(path, nil)
	if err == nil {
		return m, false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("open map %s: %w", path, err)
	}
	m, err = Open(path, spec)
	return m, err == nil, err
}

// EnsureDir creates a directory that only root may enter.
func EnsureDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	return nil
}

// Repin pins m at path instead of the map that is pinned there, atomically.
func Repin(m *ebpf.Map, path string) error {
	next := filepath.Join(filepath.Dir(path), "+next")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace pin %s: %w", path, err)
	}
	if err := PinAlso(m, next); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("replace pin %s: %w", path, err)
	}
	return nil
}

// PinAlso pins a map at an additional path.
func PinAlso(m *ebpf.Map, path string) error {
	twin, err := m.Clone()
	if err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	defer func() { _ = twin.Close() }()
	if err := twin.Pin(path); err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	return nil
}

// RemovePin removes a pin, if it exists.
func RemovePin(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove pin: %w", err)
	}
	return nil
}

// RemoveAll removes a directory of pins, if it exists.
func RemoveAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
