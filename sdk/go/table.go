// SPDX-License-Identifier: Apache-2.0

package sdk

// The daemon reads and writes maps, and confines each request to the cube that makes it.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// access gives a cube access to its maps.
type access struct {
	s    *session
	cube uint64
}

// Table is a map of a cube with keys and values of fixed-size Go types. Where the C type has padding, the Go type has
// blank members. It can be used from the first Commit on.
type Table[K comparable, V any] struct {
	m    access
	name string
}

// OpenTable returns a map by its C name. If it does not exist, the first use fails.
func OpenTable[K comparable, V any](env Env, name string) Table[K, V] {
	return Table[K, V]{m: env.access(), name: name}
}

func (t Table[K, V]) ask(ctx context.Context, r *pb.MapRequest) (*pb.MapReply, error) {
	return t.m.ask(ctx, t.name, r)
}

// ask makes a request about a map.
func (a access) ask(ctx context.Context, name string, r *pb.MapRequest) (*pb.MapReply, error) {
	r.Cube, r.Map = a.cube, name
	reply, err := a.s.ask(ctx, func(id uint64) *pb.ToDaemon {
		r.Id = id
		return &pb.ToDaemon{Message: &pb.ToDaemon_Map{Map: r}}
	})
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", name, err)
	}
	return reply.GetMap(), nil
}

// Get reads the entry of a key; ErrNotFound if there is none.
func (t Table[K, V]) Get(ctx context.Context, key K) (V, error) {
	var value V
	k, err := encode(key)
	if err != nil {
		return value, err
	}
	reply, err := t.ask(ctx, &pb.MapRequest{Operation: &pb.MapRequest_Lookup{Lookup: &pb.MapKeys{Keys: [][]byte{k}}}})
	if err != nil {
		return value, err
	}
	if len(reply.GetEntries()) != 1 {
		return value, fmt.Errorf("map %s: no such entry: %w", t.name, cube.ErrNotFound)
	}
	return value, decode(reply.GetEntries()[0].GetValue(), &value)
}

// Set writes an entry, whether or not it exists.
func (t Table[K, V]) Set(ctx context.Context, key K, value V) error {
	return t.write(ctx, pb.MapUpdate_MODE_ANY, map[K]V{key: value})
}

// Add writes a new entry; ErrExists if there is one.
func (t Table[K, V]) Add(ctx context.Context, key K, value V) error {
	return t.write(ctx, pb.MapUpdate_MODE_ADD, map[K]V{key: value})
}

// SetAll writes entries in batches; after an error some of them are written.
func (t Table[K, V]) SetAll(ctx context.Context, entries map[K]V) error {
	return t.write(ctx, pb.MapUpdate_MODE_ANY, entries)
}

func (t Table[K, V]) write(ctx context.Context, mode pb.MapUpdate_Mode, entries map[K]V) error {
	w := Entries(t.name, false, entries)
	if w.err != nil {
		return w.err
	}
	return batches(t.m.s, protoEntries(w.entries), func(part []*pb.Entry) error {
		_, err := t.ask(ctx, &pb.MapRequest{Operation: &pb.MapRequest_Update{Update: &pb.MapUpdate{Mode: mode, Entries: part}}})
		return err
	})
}

func protoEntries(entries []entry) []*pb.Entry {
	out := make([]*pb.Entry, 0, len(entries))
	for _, e := range entries {
		out = append(out, &pb.Entry{Key: e.key, Value: e.value})
	}
	return out
}

// GetAll reads the entries of keys, in batches; a missing one is not in the result.
func (t Table[K, V]) GetAll(ctx context.Context, keys ...K) (map[K]V, error) {
	return t.readAll(ctx, keys, func(part *pb.MapKeys) *pb.MapRequest {
		return &pb.MapRequest{Operation: &pb.MapRequest_Lookup{Lookup: part}}
	})
}

// Take removes the entries of keys and returns them, each atomically with respect to programs.
func (t Table[K, V]) Take(ctx context.Context, keys ...K) (map[K]V, error) {
	return t.readAll(ctx, keys, func(part *pb.MapKeys) *pb.MapRequest {
		return &pb.MapRequest{Operation: &pb.MapRequest_Take{Take: part}}
	})
}

func (t Table[K, V]) readAll(ctx context.Context, keys []K, request func(*pb.MapKeys) *pb.MapRequest) (map[K]V, error) {
	out := make(map[K]V, len(keys))
	err := t.eachBatch(keys, func(part *pb.MapKeys) error {
		reply, err := t.ask(ctx, request(part))
		for _, e := range reply.GetEntries() {
			key, value, decodeErr := t.entry(e)
			out[key] = value
			err = errors.Join(err, decodeErr)
		}
		return err
	})
	return out, err
}

// entry decodes an entry.
func (t Table[K, V]) entry(e *pb.Entry) (key K, value V, err error) {
	if err = errors.Join(decode(e.GetKey(), &key), decode(e.GetValue(), &value)); err != nil {
		err = fmt.Errorf("map %s: %w", t.name, err)
	}
	return key, value, err
}

// eachBatch divides keys to fit into messages.
func (t Table[K, V]) eachBatch(keys []K, do func(*pb.MapKeys) error) error {
	for part := range slices.Chunk(keys, max(1, int(t.m.s.hello.GetEntries()))) {
		request := &pb.MapKeys{}
		for _, key := range part {
			k, err := encode(key)
			if err != nil {
				return err
			}
			request.Keys = append(request.Keys, k)
		}
		if err := do(request); err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes an entry, and reports whether it existed.
func (t Table[K, V]) Delete(ctx context.Context, key K) (bool, error) {
	n, err := t.DeleteAll(ctx, key)
	return n > 0, err
}

// DeleteAll deletes the entries of keys, in batches, and returns how many existed; after an error some of them are deleted.
func (t Table[K, V]) DeleteAll(ctx context.Context, keys ...K) (int, error) {
	n := 0
	err := t.eachBatch(keys, func(part *pb.MapKeys) error {
		reply, err := t.ask(ctx, &pb.MapRequest{Operation: &pb.MapRequest_Delete{Delete: part}})
		n += int(reply.GetDone())
		return err
	})
	return n, err
}

// Entry is an entry of a page.
type Entry[K comparable, V any] struct {
	Key   K
	Value V
}

// Page reads up to limit entries of a hash, starting after a position, "" for the beginning. next is the position after
// them, "" at the end. An entry that exists from beginning to end is returned exactly once, whatever is added and deleted
// meanwhile. After the map has got another size, a position is cube.ErrStale.
func (t Table[K, V]) Page(ctx context.Context, after string, limit int) (entries []Entry[K, V], next string, err error) {
	reply, err := t.ask(ctx, &pb.MapRequest{Operation: &pb.MapRequest_Page{Page: &pb.MapPage{After: after, Limit: uint32(max(1, limit))}}})
	if err != nil {
		return nil, "", err
	}
	for _, e := range reply.GetEntries() {
		key, value, err := t.entry(e)
		if err != nil {
			return nil, "", err
		}
		entries = append(entries, Entry[K, V]{key, value})
	}
	return entries, reply.GetNext(), nil
}

// Clear deletes all entries; those of an array become zero.
func (t Table[K, V]) Clear(ctx context.Context) error {
	_, err := t.ask(ctx, &pb.MapRequest{Operation: &pb.MapRequest_Clear{Clear: &pb.MapClear{}}})
	return err
}

// All iterates over the entries, page by page; entries that are added or removed meanwhile may be skipped. An error
// ends it.
func (t Table[K, V]) All(ctx context.Context, failed *error) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for page := (&pb.MapIterate{}); page != nil; {
			reply, err := t.ask(ctx, &pb.MapRequest{Operation: &pb.MapRequest_Iterate{Iterate: page}})
			if err != nil {
				*failed = err
				return
			}
			page = nil
			for _, e := range reply.GetEntries() {
				key, value, err := t.entry(e)
				if err != nil {
					*failed = err
					return
				}
				if !yield(key, value) {
					return
				}
				if !reply.GetLast() {
					page = &pb.MapIterate{After: e.GetKey()}
				}
			}
		}
	}
}

// encode encodes a value in the C layout, with its padding.
func encode(v any) ([]byte, error) {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		return nil, fmt.Errorf("lay out %T: %w", v, err)
	}
	return b, nil
}

func decode(raw []byte, v any) error {
	if want := binary.Size(v); want != len(raw) {
		return fmt.Errorf("an entry has %d bytes, but %T has %d: %w", len(raw), v, want, cube.ErrInvalid)
	}
	if _, err := binary.Decode(raw, binary.LittleEndian, v); err != nil {
		return fmt.Errorf("read %T: %w", v, err)
	}
	return nil
}
