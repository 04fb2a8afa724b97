// SPDX-License-Identifier: Apache-2.0

package external

// Map requests of a service, in order.

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	maps "github.com/polycube/polycube/cube/table"
)

// mapRequest carries out a request.
func (l *life) mapRequest(r *pb.MapRequest) *pb.MapReply {
	reply := &pb.MapReply{}
	i, err := l.cube(r.GetCube())
	if err == nil {
		err = i.mapRequest(r, reply)
	}
	if err != nil {
		reply.Fault = fault(err)
	}
	return reply
}

func (i *instance) mapRequest(r *pb.MapRequest, reply *pb.MapReply) error {
	i.mu.Lock() // changes while a plan is committed must be in its journal
	defer i.mu.Unlock()
	if i.closed {
		return fmt.Errorf("cube %d is not open: %w", i.handle, cube.ErrNotFound)
	}
	if r.GetReplace() != nil {
		return i.replace(r)
	}
	t, err := i.table(r.GetMap(), r.Inner)
	if err != nil {
		return err
	}
	defer t.close()
	switch {
	case r.GetInfo() != nil:
		reply.Info = t.info()
		return nil
	case r.GetLookup() != nil:
		return t.lookup(r.GetLookup().GetKeys(), reply)
	case r.GetIterate() != nil:
		return t.iterate(r.GetIterate(), reply)
	case r.GetPage() != nil:
		return t.byPosition(r.GetPage(), reply)
	case r.GetUpdate() != nil:
		return t.update(r.GetUpdate(), reply, i.undo)
	case r.GetDelete() != nil:
		return t.remove(r.GetDelete().GetKeys(), reply, i.undo)
	case r.GetTake() != nil:
		return t.take(r.GetTake().GetKeys(), reply, i.undo)
	case r.GetClear() != nil:
		return t.clear(reply, i.undo)
	case r.GetShare() != nil:
		reply.Info = t.info()
		return i.share(t, r.GetId())
	}
	return fmt.Errorf("map %s: unknown operation: %w", t.name, cube.ErrUnsupported)
}

// checkCount refuses requests that are too large.
func checkCount(n int) error {
	if n > maxBatch {
		return fmt.Errorf("%d entries in a request, the limit is %d: %w", n, maxBatch, cube.ErrInvalid)
	}
	return nil
}

func (t *table) lookup(keys [][]byte, reply *pb.MapReply) error {
	if err := errors.Join(checkCount(len(keys)), t.plain()); err != nil {
		return err
	}
	size := 0
	for _, key := range keys {
		value, err := t.get(key)
		if err != nil {
			return err
		}
		if value == nil {
			continue
		}
		if size += len(key) + len(value); size > maxMessage/2 {
			return fmt.Errorf("map %s: the response is too large, request fewer entries: %w", t.name, cube.ErrInvalid)
		}
		reply.Entries = append(reply.Entries, &pb.Entry{Key: key, Value: value})
	}
	return nil
}

func (t *table) iterate(r *pb.MapIterate, reply *pb.MapReply) error {
	limit := maxBatch
	if n := r.GetLimit(); n > 0 && n < maxBatch {
		limit = int(n)
	}
	var err error
	reply.Last, err = t.page(r.After, limit, func(key, value []byte) error {
		reply.Entries = append(reply.Entries, &pb.Entry{Key: key, Value: value})
		return nil
	})
	return err
}

// byPosition reads a page of a hash by position instead of key.
func (t *table) byPosition(r *pb.MapPage, reply *pb.MapReply) error {
	if err := t.plain(); err != nil {
		return err
	}
	// The answer must fit a message.
	limit := max(1, min(maxBatch, maxMessage/2/(int(t.m.KeySize())+t.width())))
	if n := r.GetLimit(); n > 0 && int64(n) < int64(limit) {
		limit = int(n)
	}
	entries, next, err := maps.RawPage(t.name, t.m, r.GetAfter(), limit)
	if err != nil {
		return err
	}
	for _, e := range entries {
		reply.Entries = append(reply.Entries, &pb.Entry{Key: []byte(e.Key), Value: e.Value})
	}
	reply.Next, reply.Last = next, next == ""
	return nil
}

func (t *table) update(r *pb.MapUpdate, reply *pb.MapReply, j *journal) error {
	if err := errors.Join(checkCount(len(r.GetEntries())), t.plain()); err != nil {
		return err
	}
	flags, ok := map[pb.MapUpdate_Mode]ebpf.MapUpdateFlags{pb.MapUpdate_MODE_ANY: ebpf.UpdateAny,
		pb.MapUpdate_MODE_ADD: ebpf.UpdateNoExist, pb.MapUpdate_MODE_EXISTING: ebpf.UpdateExist}[r.GetMode()]
	if !ok {
		return fmt.Errorf("map %s: mode %d: %w", t.name, r.GetMode(), cube.ErrInvalid)
	}
	for _, e := range r.GetEntries() {
		if len(e.GetValue()) == 0 {
			return fmt.Errorf("map %s: %x: an entry without a value: %w", t.name, e.GetKey(), cube.ErrInvalid)
		}
		if err := t.change(e.GetKey(), e.GetValue(), flags, j); err != nil {
			return err
		}
		reply.Done++
	}
	return nil
}

func (t *table) remove(keys [][]byte, reply *pb.MapReply, j *journal) error {
	if err := checkCount(len(keys)); err != nil {
		return err
	}
	for _, key := range keys {
		if mapOfMaps(t.m.Type()) {
			j = nil // the inner map cannot be restored
		}
		if err := j.add(t, key); err != nil {
			return err
		}
		there, err := t.delete(key)
		if err != nil {
			return err
		}
		if there {
			reply.Done++
		}
	}
	return nil
}

func (t *table) take(keys [][]byte, reply *pb.MapReply, j *journal) error {
	if err := errors.Join(checkCount(len(keys)), t.plain()); err != nil {
		return err
	}
	for _, key := range keys {
		if queue(t.m.Type()) {
			key, j = nil, nil
		} else if err := t.checkKey(key); err != nil {
			return err
		} else if err := j.add(t, key); err != nil {
			return err
		}
		value, err := t.takeOne(key)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("map %s: take %x: %w", t.name, key, err)
		}
		reply.Entries = append(reply.Entries, &pb.Entry{Key: key, Value: value})
		reply.Done++
	}
	return nil
}

// takeOne returns and deletes an entry; one of a queue has no key.
func (t *table) takeOne(key []byte) ([]byte, error) {
	value := make([]byte, t.width())
	if t.cpus > 0 {
		return nil, fmt.Errorf("per-CPU entries can only be read and deleted: %w", cube.ErrUnsupported)
	}
	if key == nil {
		return value, t.m.LookupAndDelete(nil, value)
	}
	return value, t.m.LookupAndDelete(key, value)
}

func (t *table) clear(reply *pb.MapReply, j *journal) error {
	keys, err := t.keys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := t.change(key, nil, 0, j); err != nil {
			return err
		}
		reply.Done++
	}
	return nil
}

// replace replaces an inner map.
func (i *instance) replace(r *pb.MapRequest) error {
	entries := r.GetReplace().GetEntries()
	if err := checkCount(len(entries)); err != nil {
		return err
	}
	outer, err := i.env.Map(r.GetMap())
	if err != nil {
		return err
	}
	spec, err := i.env.Inner(r.GetMap())
	if err != nil {
		return err
	}
	if len(r.GetInner()) != int(outer.KeySize()) {
		return fmt.Errorf("map %s: a key of %d bytes instead of %d: %w", r.GetMap(), len(r.GetInner()), outer.KeySize(), cube.ErrInvalid)
	}
	const flagInnerMap = 1 << 12 // BPF_F_INNER_MAP: arrays inside may differ in their number of entries
	spec = spec.Copy()
	if n := uint32(len(entries)); n > spec.MaxEntries {
		if array(spec.Type) && spec.Flags&flagInnerMap == 0 {
			return fmt.Errorf("map %s: %d entries, the maximum is %d: %w", r.GetMap(), n, spec.MaxEntries, cube.ErrFull)
		}
		spec.MaxEntries = n
	}
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return fmt.Errorf("map %s: create the inner map: %w", r.GetMap(), err)
	}
	defer func() { _ = m.Close() }() // the map of maps holds it
	t := &table{name: r.GetMap(), m: m}
	if perCPU(m.Type()) {
		t.cpus = ebpf.MustPossibleCPU()
	}
	for _, e := range entries {
		if err := t.put(e.GetKey(), e.GetValue(), 0); err != nil {
			return err
		}
	}
	if err := outer.Put(r.GetInner(), m); err != nil {
		return fmt.Errorf("map %s: replace the map at %x: %w", r.GetMap(), r.GetInner(), err)
	}
	return nil
}
