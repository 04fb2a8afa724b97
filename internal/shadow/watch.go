// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/netdev"
)

// watch reports changes in a namespace until it is closed. It waits only for the first report of the existing
// interfaces: those reports say nothing new.
func (k *Keeper) watch(uuid string, s *space) {
	if k.changed == nil || s.stop != nil {
		return
	}
	k.watchNames()
	ctx, cancel := context.WithCancel(k.ctx)
	s.stop = cancel
	// The watch has a separate descriptor, because the space's may be closed before it ends.
	f, err := reopen(s.file)
	if err != nil {
		k.o.Logger.Error("changes in a cube's namespace are not monitored", "cube", s.cube, "err", err)
		return
	}
	wake, synced := make(chan struct{}, 1), false
	k.done.Go(func() { report(ctx, wake, uuid, k.changed) })
	k.done.Go(func() {
		defer func() { _ = f.Close() }() // nothing was written
		err := netdev.InNamespace(f, func() error {
			return netdev.Watch(ctx, func(e netdev.Event) {
				synced = synced || e.Kind == netdev.Synced
				if !synced {
					return
				}
				select {
				case wake <- struct{}{}:
				default: // a report is already pending and will include this
				}
			})
		})
		if err != nil && ctx.Err() == nil {
			k.o.Logger.Error("changes in a cube's namespace are no longer monitored", "cube", s.cube, "err", err)
		}
	})
}

// pause is the time between two reports of a namespace, so that frequent changes are read rarely.
const pause = 20 * time.Millisecond

// report calls changed for what has happened since the last call.
func report(ctx context.Context, wake <-chan struct{}, uuid string, changed func(string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			changed(uuid)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func reopen(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("shadow: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// watchNames starts reporting names that are removed.
func (k *Keeper) watchNames() {
	if k.names != nil {
		return
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		k.names = os.NewFile(uintptr(fd), "inotify")
		_, err = unix.InotifyAddWatch(fd, k.o.Dir, unix.IN_DELETE|unix.IN_MOVED_FROM)
	}
	if err != nil {
		k.o.Logger.Error("removed names of namespaces are not monitored", "err", err)
		return
	}
	names := k.names
	k.done.Go(func() {
		buf := make([]byte, 16<<10)
		for {
			n, err := names.Read(buf)
			if err != nil {
				return // closed
			}
			for _, name := range removedNames(buf[:n]) {
				k.nameRemoved(name)
			}
		}
	})
}

// removedNames parses a buffer of struct inotify_event.
func removedNames(buf []byte) []string {
	var out []string
	for len(buf) >= unix.SizeofInotifyEvent {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
		end := min(unix.SizeofInotifyEvent+int(e.Len), len(buf))
		name, _, _ := bytes.Cut(buf[unix.SizeofInotifyEvent:end], []byte{0})
		out = append(out, string(name))
		buf = buf[end:]
	}
	return out
}

// nameRemoved reports the cube whose namespace had a name.
func (k *Keeper) nameRemoved(name string) {
	if !strings.HasPrefix(name, k.prefix()) {
		return
	}
	k.mu.Lock()
	found, changed := "", k.changed
	for uuid, s := range k.spaces {
		if k.Name(s.cube) == name {
			found = uuid
		}
	}
	k.mu.Unlock()
	if found != "" {
		changed(found)
	}
}
