// SPDX-License-Identifier: Apache-2.0

package balance

// The numbers of servers in the data plane. A server keeps its number as long as it exists, through restarts, because
// flows are pinned to it. The number of a removed server is not used again until no pin has it.

import (
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// keyEntry is struct pcn_server_key.
type keyEntry struct {
	Key  Key
	Used uint64
}

// Numbers are the numbers of a cube's servers. They are not safe for concurrent use.
type Numbers struct {
	keys *table.Mapped[keyEntry]
	of   map[Key]uint32
	next uint32
}

// NewNumbers returns the numbers of a cube. Begin opens them.
func NewNumbers(env cube.Env) *Numbers {
	return &Numbers{keys: table.NewMapped[keyEntry](env, "server_keys"), of: map[Key]uint32{}}
}

// Begin adopts the numbers of an earlier daemon.
func (n *Numbers) Begin() error {
	keys, err := n.keys.Values()
	if err != nil {
		return err
	}
	for number := range keys {
		if keys[number].Used != 0 {
			n.of[keys[number].Key] = uint32(number)
		}
	}
	return nil
}

// Of returns the number of a server; false if it has none.
func (n *Numbers) Of(k Key) (uint32, bool) {
	number, ok := n.of[k]
	return number, ok
}

// Take gives a server a number, from 1 on, or returns the one that it has; isNew says that it had none.
func (n *Numbers) Take(k Key) (number uint32, isNew bool, err error) {
	if number, ok := n.of[k]; ok {
		return number, false, nil
	}
	keys, err := n.keys.Values()
	if err != nil {
		return 0, false, err
	}
	for range keys {
		if n.next++; int(n.next) >= len(keys) {
			n.next = 1
		}
		if int(n.next) < len(keys) && keys[n.next].Used == 0 {
			keys[n.next] = keyEntry{Key: k, Used: 1}
			n.of[k] = n.next
			return n.next, true, nil
		}
	}
	return 0, false, fmt.Errorf("the limit of %d servers is reached: %w", len(keys)-1, cube.ErrFull)
}

// Free takes back a number, once no pin and no table has it.
func (n *Numbers) Free(k Key) error {
	keys, err := n.keys.Values()
	if err != nil {
		return err
	}
	if number, ok := n.of[k]; ok {
		keys[number] = keyEntry{}
		delete(n.of, k)
	}
	return nil
}

// All returns the servers with a number. The map must not be changed.
func (n *Numbers) All() map[Key]uint32 { return n.of }

// Close ends the use of the memory.
func (n *Numbers) Close() error { return n.keys.Close() }
