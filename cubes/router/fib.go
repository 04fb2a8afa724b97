// SPDX-License-Identifier: Apache-2.0

package router

// The storage of the IPv4 route trie for packets: a root of fixed size, and pages of chunks that are created on demand.

import (
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// fib4 contains the maps `fib4` and `fib4_pages`.
type fib4 struct {
	root  table.Table[uint32, chunkEntry]
	pages table.MapOf[uint32, uint32, chunkEntry]
}

func (f fib4) writeRoot(numbers []uint32, chunks []chunkEntry) error {
	_, err := f.root.SetAll(numbers, chunks)
	return err
}

func (f fib4) writeChunks(numbers []uint32, chunks []chunkEntry) error {
	order := make([]int, len(numbers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(numbers[a]) - int(numbers[b]) })
	for len(order) > 0 {
		page := numbers[order[0]] / pageChunks
		var slots []uint32
		var values []chunkEntry
		for len(order) > 0 && numbers[order[0]]/pageChunks == page {
			slots, values = append(slots, numbers[order[0]]%pageChunks), append(values, chunks[order[0]])
			order = order[1:]
		}
		if err := f.writePage(page, slots, values); err != nil {
			return err
		}
	}
	return nil
}

func (f fib4) writePage(page uint32, slots []uint32, values []chunkEntry) (err error) {
	p, ok, err := f.pages.Get(page)
	if err == nil && !ok {
		if err = f.pages.Replace(page, func(func(uint32, chunkEntry) bool) {}); err == nil {
			p, ok, err = f.pages.Get(page)
		}
	}
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("page %d of the routes: %w", page, cube.ErrNotFound)
	}
	defer func() {
		if closing := p.Close(); err == nil {
			err = closing
		}
	}()
	_, err = p.SetAll(slots, values)
	return err
}

// used returns the chunks and next hops that packets still use from a previous run of the cube.
func (f fib4) used() (chunks, hops map[uint32]bool, err error) {
	chunks, hops = map[uint32]bool{}, map[uint32]bool{}
	var next []uint32
	look := func(c chunkEntry) {
		for _, e := range c.Entry {
			switch {
			case e&follows != 0:
				next = append(next, e&^follows)
				chunks[e&^follows] = true
			case e != 0:
				hops[e] = true
			}
		}
	}
	for _, c := range f.root.All(&err) {
		look(c)
	}
	for err == nil && len(next) > 0 {
		level := next
		next = nil
		slices.Sort(level)
		for len(level) > 0 && err == nil {
			page := level[0] / pageChunks
			end := 0
			for end < len(level) && level[end]/pageChunks == page {
				end++
			}
			err = f.readPage(page, level[:end], look)
			level = level[end:]
		}
	}
	return chunks, hops, err
}

func (f fib4) readPage(page uint32, numbers []uint32, look func(chunkEntry)) (err error) {
	p, ok, err := f.pages.Get(page)
	if err != nil || !ok {
		return err
	}
	defer func() {
		if closing := p.Close(); err == nil {
			err = closing
		}
	}()
	for _, n := range numbers {
		c, _, err := p.Get(n % pageChunks)
		if err != nil {
			return err
		}
		look(c)
	}
	return nil
}
