// SPDX-License-Identifier: Apache-2.0

package simplebridge

// The configuration in Go.

import (
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration.
type Config struct {
	Ports []cube.Port `json:"ports"`
	Fdb   Fdb         `json:"fdb"`
}

// Fdb is the container `fdb`.
type Fdb struct {
	// AgingTime is in seconds; 0 keeps learned addresses forever.
	AgingTime  uint32 `json:"aging-time"`
	MaxEntries uint32 `json:"max-entries"`
}

// Entry is a configured address. There may be many, so they are passed one by one.
type Entry struct {
	Address inet.MAC `json:"address"`
	Port    string   `json:"port"`
}

// aging is how long a learned address is used; 0: forever.
func (f Fdb) aging() time.Duration { return time.Duration(f.AgingTime) * time.Second }

// constants returns the values of the program's constants.
func (f Fdb) constants() map[string]any { return fdb.Constants(f.aging(), f.MaxEntries) }
