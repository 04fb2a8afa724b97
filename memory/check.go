// SPDX-License-Identifier: Apache-2.0

package memory

// Memory that is too large is refused before the kernel is asked for it.

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

const (
	// What is smaller is allocated without reading how much memory is available.
	large = 1 << 20
	// reserve is left for the daemon itself: its heap may double between two garbage collections.
	reserve = 32 << 20
)

// lackError is the error for a map that needs more memory than is available.
type lackError struct {
	entries uint32
	takes   uint64
	room    Room
}

func (e *lackError) Error() string {
	return fmt.Sprintf("its %d entries need %d MB, and %s has %d MB available, of which %d are reserved for the daemon", e.entries, e.takes>>20,
		e.room.Of, e.room.Bytes>>20, reserve>>20)
}

// Is matches cube.ErrFull, for clients, and ENOMEM, a lack of resources.
func (e *lackError) Is(target error) bool { return target == cube.ErrFull || target == unix.ENOMEM }

// Check refuses a map that takes a number of bytes if they are not available, even if the daemon gives back what it has
// freed. The error matches cube.ErrFull and ENOMEM. If they are available, the daemon's heap is confined to what is left.
func Check(entries uint32, takes uint64) error {
	if takes < large {
		return nil
	}
	room := Available()
	if room.Bytes < takes+reserve {
		debug.FreeOSMemory()
		var is runtime.MemStats
		runtime.ReadMemStats(&is)
		// The heap has no garbage now, and grows to twice its size before the next collection.
		if room = Available(); room.Bytes < takes+reserve+is.HeapAlloc {
			return &lackError{entries, takes, room}
		}
	}
	confine(room.Bytes - takes)
	return nil
}

// Lack is the error for a map for which the kernel had no memory.
func Lack(entries uint32, takes uint64) error { return &lackError{entries, takes, Available()} }
