// SPDX-License-Identifier: Apache-2.0

package lbdsr

// The services that packets of known flows are found to be for without a search: by the number in the pin of the flow.

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// knownEntry is struct lbdsr_known. What has all but the address, and is written at once, as packets read entries at any
// time; 0: no packet is for the service.
type knownEntry struct {
	Address inet.Address
	What    uint64
	Zero    uint64
}

// knownOf is the entry of a service.
func knownOf(id ServiceID, by balance.By, timeout uint8) knownEntry {
	protocols := map[balance.Proto][2]inet.Protocol{balance.TCP: {inet.TCP}, balance.UDP: {inet.UDP}, balance.All: {inet.TCP, inet.UDP}}
	p, ok := protocols[id.Proto]
	if by != balance.ByFlow || id.Port == 0 || !ok {
		return knownEntry{}
	}
	what := [8]byte{byte(id.Port >> 8), byte(id.Port), byte(p[0]), byte(p[1]), timeout}
	return knownEntry{Address: inet.AddressOf(id.VIP), What: binary.NativeEndian.Uint64(what[:])}
}

// known are the services by number.
type known struct{ *table.Mapped[knownEntry] }

func newKnown(env cube.Env) known { return known{table.NewMapped[knownEntry](env, "known_services")} }

// set makes the entry of a number what it is to be. The address of a number only changes after all its pins are gone.
func (k known) set(number uint32, e knownEntry) error {
	entries, err := k.Values()
	if err != nil {
		return err
	}
	is := &entries[number]
	if is.Address != e.Address {
		atomic.StoreUint64(&is.What, 0)
		is.Address = e.Address
	}
	atomic.StoreUint64(&is.What, e.What)
	return nil
}

// reset removes what an earlier daemon knew.
func (k known) reset() error {
	entries, err := k.Values()
	for i := range entries {
		atomic.StoreUint64(&entries[i].What, 0)
	}
	return err
}
