// SPDX-License-Identifier: Apache-2.0

package clang

// Objects of earlier compilations, so that a daemon that starts needs neither the time nor the compiler.

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/cube/compile"
)

// Limits of what is kept: the objects that were used last.
const (
	most      = 256
	mostBytes = 64 << 20
)

// unfinished is how names of files begin that are being written.
const unfinished = ".new-"

// kept is a directory with objects, each behind its checksum, by a name made of all that they depend on but the compiler.
// The zero value keeps nothing.
type kept struct{ dir string }

// nameOf returns the name of the object of a source with some headers. Nobody can give another source the same name.
func nameOf(s compile.Source, headers map[string][]byte) string {
	sum := sha256.New()
	add := func(part []byte) {
		fmt.Fprintf(sum, "%d ", len(part))
		sum.Write(part)
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		add([]byte(name))
		add(headers[name])
	}
	add([]byte(strings.Join(arguments(s, ""), "\x00")))
	add([]byte(s.Name))
	add(s.Text)
	return hex.EncodeToString(sum.Sum(nil))
}

// find returns an object, nil if there is none. A file that is damaged is none.
func (k kept) find(name string) []byte {
	if k.dir == "" {
		return nil
	}
	path := filepath.Join(k.dir, name)
	text, err := os.ReadFile(path)
	if err != nil || len(text) < sha256.Size {
		return nil
	}
	object := text[sha256.Size:]
	if sha256.Sum256(object) != [sha256.Size]byte(text) {
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // at worst it goes earlier
	return object
}

// keep stores an object, and removes the one that has not been used for longest if there are too many.
func (k kept) keep(name string, object []byte) error {
	if k.dir == "" {
		return nil
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("keep a compiled object: %w", err)
	}
	sum := sha256.Sum256(object)
	f, err := os.CreateTemp(k.dir, unfinished)
	if err != nil {
		return fmt.Errorf("keep a compiled object: %w", err)
	}
	_, err = f.Write(append(sum[:], object...))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(k.dir, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep a compiled object: %w", err), os.Remove(f.Name()))
	}
	return k.prune()
}

// prune removes what is too much, and what a daemon has left that was killed while it wrote.
func (k kept) prune() error {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return fmt.Errorf("kept objects: %w", err)
	}
	var files []fs.FileInfo
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			errs = append(errs, os.Remove(filepath.Join(k.dir, e.Name())))
		} else if info, err := e.Info(); err == nil {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	bytes := int64(0)
	for i, f := range files {
		if bytes += f.Size(); i >= most || bytes > mostBytes {
			errs = append(errs, os.Remove(filepath.Join(k.dir, f.Name())))
		}
	}
	return errors.Join(errs...)
}
