// SPDX-License-Identifier: Apache-2.0

package table

import (
	"hash/fnv"
	"sync/atomic"
)

// ownerID is what a zone has of its owner.
func ownerID(owner string) uint32 {
	if owner == "" {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(owner)) // never fails
	return max(h.Sum32(), 1)
}

// OwnedBy reports whether a zone has an owner; "": whether it has none.
func (t *Table) OwnedBy(zone uint16, owner string) bool {
	return atomic.LoadUint32(&t.zones[zone].owner) == ownerID(owner)
}

// Own gives a zone to an owner, such as the UUID of a cube whose number is that of the zone. If it was that of another
// one, which does not exist any more, its connections are removed, and it has neither a limit nor timeouts. A cube that is
// deleted gives its zone to nobody, "". A restart of the daemon changes nothing.
func (t *Table) Own(zone uint16, owner string) error {
	id := ownerID(owner)
	z := &t.zones[zone]
	if atomic.LoadUint32(&z.owner) == id {
		return nil
	}
	mine := func(e *Entry) bool { return e.Key.Zone == zone }
	if t.Count(zone) == 0 {
		t.young.remove(mine, func(*Entry) {}) // usually: the large table need not be gone through
	} else if _, err := t.Remove(mine); err != nil {
		return err
	}
	Watch(t, zone, nil)
	if err := (Counters{t}).Stop(zone); err != nil {
		return err
	}
	t.setting.Lock()
	defer t.setting.Unlock()
	delete(t.timeouts, zone)
	t.Limit(zone, 0)
	atomic.StoreUint32(&z.owner, id)
	return nil
}
