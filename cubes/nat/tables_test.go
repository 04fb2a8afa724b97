// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"

	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
)

// TestKeysAreThoseOfTheTables: the tables open with the Go types of their keys, which have the offsets of the C structs.
func TestKeysAreThoseOfTheTables(t *testing.T) {
	for name, k := range map[string]struct{ got, want []uintptr }{
		"sourceKey":  {[]uintptr{unsafe.Offsetof(sourceKey{}.Addr), unsafe.Sizeof(sourceKey{})}, []uintptr{4, 20}},
		"forwardKey": {[]uintptr{unsafe.Offsetof(forwardKey{}.Proto), unsafe.Offsetof(forwardKey{}.Port), unsafe.Sizeof(forwardKey{})}, []uintptr{20, 22, 24}},
		"key": {[]uintptr{unsafe.Offsetof(key{}.LocalPort), unsafe.Offsetof(key{}.Zone), unsafe.Offsetof(key{}.Proto), unsafe.Sizeof(key{})},
			[]uintptr{unsafe.Offsetof(conns.Key{}.Port), unsafe.Offsetof(conns.Key{}.Zone), unsafe.Offsetof(conns.Key{}.Protocol), unsafe.Sizeof(conns.Key{})}},
		"session": {[]uintptr{unsafe.Offsetof(session{}.Status), unsafe.Offsetof(session{}.Seen), unsafe.Offsetof(session{}.AddrDelta)},
			[]uintptr{unsafe.Offsetof(conns.Entry{}.Status), unsafe.Offsetof(conns.Entry{}.Seen), unsafe.Offsetof(conns.Entry{}.State)}},
	} {
		for i := range k.got {
			if k.got[i] != k.want[i] {
				t.Errorf("%s: offset or size %d is %d, want %d", name, i, k.got[i], k.want[i])
			}
		}
	}
}

// tablesOf opens the tables of the cube `n`.
func tablesOf(t testing.TB, l *bpftest.Lab) *tables {
	t.Helper()
	tables := newTables(mapsOf{l: l})
	var err error
	if tables.sessions, err = conns.Open(mapsOf{l: l}, 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tables.close() })
	return &tables
}

// mapsOf is an Env that has the maps of the cube `n`.
type mapsOf struct {
	cube.Env
	l *bpftest.Lab
}

func (m mapsOf) Map(name string) (*ebpf.Map, error) {
	if strings.HasPrefix(name, "ct_embryo") {
		return nil, cube.ErrNotFound
	}
	return m.l.Map("n", name), nil
}

func (mapsOf) Inner(name string) (*ebpf.MapSpec, error) {
	elf, err := files.ReadFile("nat.tc.o")
	if err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(elf))
	if err != nil {
		return nil, err
	}
	return spec.Maps[name].InnerMap, nil
}

// all returns the sessions and mappings as seen on one side: 0, or zoneOutside.
func (t *tables) all(side uint16) (all []session) {
	for cursor, first := uint32(0), true; first || cursor != 0; first = false {
		var page []conns.Entry
		page, cursor = t.sessions.Page(cursor, 10000, func(e *conns.Entry) bool { return e.Key.Zone&zoneOutside == side })
		for i := range page {
			all = append(all, *sessionOf(&page[i]))
		}
	}
	return all
}

// change changes a session in place, and returns false if there is none.
func (t *tables) change(k key, change func(*session)) (found bool) {
	_, err := t.sessions.Remove(func(e *conns.Entry) bool {
		if e.Key == k.entry() {
			found = true
			change(sessionOf(e))
		}
		return false
	})
	return found && err == nil
}

// put writes a session, in the place of one with the same key.
func (t *tables) put(is session) error {
	if t.change(is.Key, func(s *session) { status := s.Status; *s = is; s.Status = status }) {
		return nil
	}
	return t.add(is)
}

func (t *tables) add(is session) error {
	_, err := t.sessions.Add((*conns.Entry)(unsafe.Pointer(&is)))
	return err
}

// outside is the other side of a session.
func (s session) outside() session {
	s.Key, s.Addr, s.Port = s.twin(), s.Key.Local, s.Key.LocalPort
	return s
}

// as makes a session have an external endpoint.
func (s session) as(addr string, p uint16) session {
	s.Addr, s.Port = inet.AddressOf(netip.MustParseAddr(addr)), portOf(p)
	return s
}
