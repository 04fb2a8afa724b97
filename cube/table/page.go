// SPDX-License-Identifier: Apache-2.0

package table

// Pages of a hash. The kernel reads a hash bucket by bucket, and the position in it is a bucket number: entries stay in
// their bucket, whatever is added and removed. So a page ends at a bucket boundary, and only if a bucket has more
// entries than requested, within one: its entries are then taken in the order of their keys.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/locked"
)

// PageEntry is an entry of a page.
type PageEntry[K comparable, V any] struct {
	Key   K
	Value V
}

// PageScan limits the number of entries that a page examines.
const PageScan = 1 << 15

// Page reads up to limit entries of a hash for which keep holds, starting after a cursor, "" for the beginning. It
// examines about PageScan entries at most, so it may return fewer. next is the cursor after them, "" at the end of the
// map.
//
// When a hash is read page by page, an entry that exists from beginning to end is returned exactly once, whatever is
// added and deleted meanwhile, including the entry before the cursor. A cursor belongs to a size of the map: after a
// resize, it is cube.ErrStale. An invalid cursor is cube.ErrInvalid.
func (t Table[K, V]) Page(after string, limit int, keep func(K, V) bool) (entries []PageEntry[K, V], next string, err error) {
	m, err := t.open()
	if err != nil {
		return nil, "", err
	}
	if sizeOf[K]() <= 0 || sizeOf[V]() <= 0 {
		return nil, "", fmt.Errorf("map %s: types with their own encoding cannot be read in pages: %w", t.name, cube.ErrUnsupported)
	}
	encode := func(key K) ([]byte, error) { return binary.Append(nil, binary.NativeEndian, key) }
	return (&pageReader[K, V]{m: m, limit: max(1, limit), keep: keep, fetch: typedEntries[K, V], encode: encode}).page(t.name, after)
}

// RawPage is Page for a map and its entries as bytes.
func RawPage(name string, m *ebpf.Map, after string, limit int) (entries []PageEntry[string, []byte], next string, err error) {
	held, err := locked.Of(m)
	if err != nil {
		return nil, "", fmt.Errorf("map %s: %w", name, err)
	}
	encode := func(key string) ([]byte, error) { return []byte(key), nil }
	return (&pageReader[string, []byte]{m: held, limit: max(1, limit), fetch: rawEntries, encode: encode}).page(name, after)
}

// page reads the page after a cursor.
func (r *pageReader[K, V]) page(name, after string) (entries []PageEntry[K, V], next string, err error) {
	if typ := r.m.Type(); typ != ebpf.Hash && typ != ebpf.LRUHash {
		return nil, "", fmt.Errorf("map %s: a map of type %s cannot be read in pages: %w", name, typ, cube.ErrUnsupported)
	}
	if r.at, err = parseCursor(after, r.m); err != nil {
		return nil, "", err
	}
	for !r.full() {
		if err := r.step(); err != nil {
			return nil, "", fmt.Errorf("map %s: read a page: %w", name, err)
		}
		if r.end {
			return r.out, "", nil
		}
	}
	return r.out, r.at.text(r.m.MaxEntries()), nil
}

// pageCursor is a position in a hash.
type pageCursor struct {
	bucket uint32
	// last is the key after which to continue in the bucket, nil at its beginning.
	last []byte
}

// text is SIZE-BUCKET or SIZE-BUCKET-KEY.
func (c pageCursor) text(size uint32) string {
	text := strconv.FormatUint(uint64(size), 36) + "-" + strconv.FormatUint(uint64(c.bucket), 36)
	if c.last != nil {
		text += "-" + hex.EncodeToString(c.last)
	}
	return text
}

func parseCursor(text string, m locked.Map) (c pageCursor, err error) {
	if text == "" {
		return c, nil
	}
	bad := fmt.Errorf("after %.80q: not a position in the list: use the value from the previous page: %w", text, cube.ErrInvalid)
	parts := strings.Split(text, "-")
	if len(parts) < 2 || len(parts) > 3 {
		return c, bad
	}
	size, err := strconv.ParseUint(parts[0], 36, 32)
	if err != nil {
		return c, bad
	}
	bucket, err := strconv.ParseUint(parts[1], 36, 32)
	if err != nil {
		return c, bad
	}
	c.bucket = uint32(bucket)
	if len(parts) == 3 {
		if c.last, err = hex.DecodeString(parts[2]); err != nil || len(c.last) != int(m.KeySize()) {
			return c, bad
		}
	}
	if uint32(size) != m.MaxEntries() {
		return c, fmt.Errorf("after %.80q: the list was re-created with another size meanwhile, read it from the start: %w", text, cube.ErrStale)
	}
	return c, nil
}

// pageReader collects a page.
type pageReader[K comparable, V any] struct {
	m     locked.Map
	at    pageCursor
	limit int
	keep  func(K, V) bool
	// fetch reads up to count entries of whole buckets from one on; see lookupBatch. encode encodes a key.
	fetch  func(m locked.Map, bucket uint32, count int) (got []PageEntry[K, V], next uint32, last bool, err error)
	encode func(K) ([]byte, error)

	out     []PageEntry[K, V]
	scanned int
	// most is how many entries to read at once, after more matched than there was room for; 0: unknown.
	most int
	// end is the end of the map; short says that the next bucket does not fit the page.
	end, short bool
}

func (r *pageReader[K, V]) full() bool {
	return r.short || len(r.out) >= r.limit || r.scanned >= PageScan
}

// step reads some buckets.
func (r *pageReader[K, V]) step() error {
	room := r.limit - len(r.out)
	count := min(batch, room)
	if r.keep != nil {
		// As many as should fill the page, by the share of earlier ones that was kept.
		count = min(batch, max(16, room*(r.scanned+1)/(len(r.out)+1)))
	}
	if r.most > 0 {
		count = min(count, r.most)
	}
	if r.at.last != nil {
		return r.bucket()
	}
	got, next, last, err := r.fetch(r.m, r.at.bucket, count)
	if errors.Is(err, unix.ENOSPC) {
		if r.short = len(r.out) > 0 && r.keep == nil; r.short {
			return nil
		}
		return r.bucket()
	}
	if err != nil {
		return err
	}
	matching := r.matching(got)
	if len(matching) > room {
		r.most = max(1, count/2)
		return nil
	}
	r.most = 0
	r.take(matching, len(got), next, last)
	return nil
}

// bucket reads one bucket, in the order of its keys.
func (r *pageReader[K, V]) bucket() error {
	for count := 1; count <= int(r.m.MaxEntries()); count++ {
		got, next, last, err := r.fetch(r.m, r.at.bucket, count)
		if errors.Is(err, unix.ENOSPC) {
			continue // if it is large enough the first time, one bucket fills it
		}
		if err != nil {
			return err
		}
		if r.at.last != nil {
			if err := r.checkBucket(got); err != nil {
				return err
			}
		}
		r.most = 0
		return r.within(got, next, last)
	}
	return fmt.Errorf("a bucket grows faster than it can be read: %w", cube.ErrInUse)
}

// checkBucket clears the cursor's key if its bucket has become empty: the bucket that was read is then another one.
func (r *pageReader[K, V]) checkBucket(got []PageEntry[K, V]) error {
	if len(got) == 0 {
		return nil
	}
	behind, _, _, err := r.fetch(r.m, r.at.bucket+1, len(got))
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		return err
	}
	if slices.ContainsFunc(behind, func(e PageEntry[K, V]) bool { return e.Key == got[0].Key }) {
		r.at.last = nil
	}
	return nil
}

// within returns the entries after the cursor's key in a bucket.
func (r *pageReader[K, V]) within(got []PageEntry[K, V], next uint32, last bool) error {
	raw := make(map[K][]byte, len(got))
	for _, e := range got {
		b, err := r.encode(e.Key)
		if err != nil {
			return fmt.Errorf("encode a key: %w", err)
		}
		raw[e.Key] = b
	}
	slices.SortFunc(got, func(a, b PageEntry[K, V]) int { return bytes.Compare(raw[a.Key], raw[b.Key]) })
	if r.at.last != nil {
		got = slices.DeleteFunc(got, func(e PageEntry[K, V]) bool { return bytes.Compare(raw[e.Key], r.at.last) <= 0 })
	}
	matching := r.matching(got)
	if room := r.limit - len(r.out); len(matching) > room {
		bucket, err := r.home(got[0].Key, len(raw), next)
		if err != nil {
			return err
		}
		matching = matching[:room]
		r.out, r.at = append(r.out, matching...), pageCursor{bucket, raw[matching[room-1].Key]}
		return nil
	}
	r.take(matching, len(got), next, last)
	return nil
}

// home finds the bucket of a key among those from the cursor's on and before end, all empty except the key's: reading
// skips empty ones, and the cursor of the rest of a bucket must name that bucket.
func (r *pageReader[K, V]) home(key K, entries int, end uint32) (uint32, error) {
	low, high := r.at.bucket, end // it is in low or after, and before high
	for low+1 < high {
		middle := low + (high-low)/2
		got, _, _, err := r.fetch(r.m, middle, entries)
		switch {
		case err != nil && !errors.Is(err, unix.ENOSPC):
			return 0, err
		case slices.ContainsFunc(got, func(e PageEntry[K, V]) bool { return e.Key == key }):
			low = middle
		default:
			high = middle
		}
	}
	return low, nil
}

func (r *pageReader[K, V]) matching(got []PageEntry[K, V]) []PageEntry[K, V] {
	if r.keep == nil {
		return got
	}
	var out []PageEntry[K, V]
	for _, e := range got {
		if r.keep(e.Key, e.Value) {
			out = append(out, e)
		}
	}
	return out
}

func (r *pageReader[K, V]) take(matching []PageEntry[K, V], scanned int, next uint32, last bool) {
	r.out, r.scanned, r.end = append(r.out, matching...), r.scanned+scanned, last
	r.at = pageCursor{bucket: next}
}

// pageAttr is the member batch of union bpf_attr. The library's own cursor cannot be reconstructed from a client's
// text.
type pageAttr struct {
	inBatch, outBatch, keys, values uint64
	count, fd                       uint32
	elemFlags, flags                uint64
}

const bpfMapLookupBatch = 24 // BPF_MAP_LOOKUP_BATCH of <linux/bpf.h>

// lookupBatch reads whole buckets starting with one, up to count entries; the error is ENOSPC if the first one has more.
// last says that there are no more buckets.
func lookupBatch(m locked.Map, bucket uint32, count int, keys, values unsafe.Pointer) (n int, next uint32, last bool, err error) {
	in, out := new(uint32), new(uint32)
	*in = bucket
	var pin runtime.Pinner
	defer pin.Unpin()
	address := func(p unsafe.Pointer) uint64 {
		pin.Pin(p)
		return uint64(uintptr(p))
	}
	attr := pageAttr{inBatch: address(unsafe.Pointer(in)), outBatch: address(unsafe.Pointer(out)), keys: address(keys),
		values: address(values), count: uint32(count), fd: uint32(m.FD()), elemFlags: m.Flags}
	_, _, errno := unix.Syscall(unix.SYS_BPF, bpfMapLookupBatch, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(m.Map)
	if errno != 0 && errno != unix.ENOENT {
		return 0, 0, false, errno
	}
	return int(attr.count), *out, errno == unix.ENOENT, nil
}

// typedEntries reads entries of the types of a table.
func typedEntries[K comparable, V any](m locked.Map, bucket uint32, count int) (got []PageEntry[K, V], next uint32, last bool, err error) {
	keys, values := newColumn[K](count), newColumn[V](count)
	n, next, last, err := lookupBatch(m, bucket, count, keys.memory(), values.memory())
	if err != nil {
		return nil, 0, false, err
	}
	ks, err := keys.decode(n)
	if err != nil {
		return nil, 0, false, fmt.Errorf("decode keys: %w", err)
	}
	vs, err := values.decode(n)
	if err != nil {
		return nil, 0, false, fmt.Errorf("decode values: %w", err)
	}
	got = make([]PageEntry[K, V], n)
	for i := range got {
		got[i] = PageEntry[K, V]{ks[i], vs[i]}
	}
	return got, next, last, nil
}

// rawEntries reads entries as bytes.
func rawEntries(m locked.Map, bucket uint32, count int) (got []PageEntry[string, []byte], next uint32, last bool, err error) {
	k, v := int(m.KeySize()), int(m.ValueSize())
	keys, values := make([]byte, count*k), make([]byte, count*v)
	n, next, last, err := lookupBatch(m, bucket, count, unsafe.Pointer(&keys[0]), unsafe.Pointer(&values[0]))
	if err != nil {
		return nil, 0, false, err
	}
	got = make([]PageEntry[string, []byte], n)
	for i := range got {
		got[i] = PageEntry[string, []byte]{string(keys[i*k:][:k]), values[i*v:][:v:v]}
	}
	return got, next, last, nil
}

// column is a buffer for keys or values in the kernel's layout: a type without padding is read directly.
type column[T any] struct {
	direct []T
	raw    []byte
	size   int
}

func newColumn[T any](count int) column[T] {
	var zero T
	size := binary.Size(zero)
	if size == int(unsafe.Sizeof(zero)) {
		return column[T]{direct: make([]T, count)}
	}
	return column[T]{raw: make([]byte, count*max(1, size)), size: size}
}

func (c column[T]) memory() unsafe.Pointer {
	if c.direct != nil {
		return unsafe.Pointer(&c.direct[0])
	}
	return unsafe.Pointer(&c.raw[0])
}

func (c column[T]) decode(n int) ([]T, error) {
	if c.direct != nil {
		return c.direct[:n], nil
	}
	out := make([]T, n)
	for i := range out {
		if _, err := binary.Decode(c.raw[i*c.size:(i+1)*c.size], binary.NativeEndian, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
