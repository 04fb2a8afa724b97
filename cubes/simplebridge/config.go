// SPDX-License-Identifier: Apache-2.0

package simplebridge

// The model's tree in Go.

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/polycube/polycube/cube"
)

// Config is what the model's tree decodes into.
type Config struct {
	Ports []cube.Port `json:"ports"`
	Fdb   Fdb         `json:"fdb"`
}

// Fdb is the container `fdb`.
type Fdb struct {
	// AgingTime is in seconds; 0 keeps learned addresses for ever.
	AgingTime  uint32 `json:"aging-time"`
	MaxEntries uint32 `json:"max-entries"`
}

// Entry is a configured address. There may be many, so they come one by one.
type Entry struct {
	Address Address `json:"address"`
	Port    string  `json:"port"`
}

// Address is a MAC address as the fast path keeps it: the first byte in the lowest bits.
type Address uint64

// parseAddress reads the form of the model, aa:bb:cc:dd:ee:ff.
func parseAddress(text string) (Address, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		return 0, fmt.Errorf("MAC address %q: %w", text, cube.ErrInvalid)
	}
	return Address(binary.LittleEndian.Uint64(append(mac, 0, 0))), nil
}

// UnmarshalText reads the form of the model.
func (a *Address) UnmarshalText(text []byte) (err error) {
	*a, err = parseAddress(string(text))
	return err
}

// MarshalText writes the form of the model, in lower case.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// String is the form of the model, in lower case.
func (a Address) String() string {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(a))
	return net.HardwareAddr(b[:6]).String()
}

// aging is how long a learned address is used; 0 for ever.
func (f Fdb) aging() time.Duration { return time.Duration(f.AgingTime) * time.Second }

// constants are the values of the program's constants. `seen` is written again after a tenth of
// the aging time, so that an address in use is not taken for an aged one.
func (f Fdb) constants() map[string]any {
	refresh := time.Second
	if f.AgingTime > 0 {
		refresh = min(refresh, f.aging()/10)
	}
	return map[string]any{"aging_ns": uint64(f.aging()), "refresh_ns": uint64(refresh)}
}
