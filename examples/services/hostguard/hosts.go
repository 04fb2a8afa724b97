// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strconv"
)

// mostHosts is how many names are counted.
const mostHosts = 1000

// host counts the connections to a host.
type host struct {
	connections, blocked uint64
	seen                 uint64
}

// hosts counts connections by name.
type hosts struct {
	by  map[string]*host
	now uint64
}

// count counts a connection. A new name replaces the one that was not seen for longest.
func (h *hosts) count(name string, blocked bool) {
	if h.by == nil {
		h.by = map[string]*host{}
	}
	h.now++
	c := h.by[name]
	if c == nil {
		if len(h.by) >= mostHosts {
			delete(h.by, h.oldest())
		}
		c = &host{}
		h.by[name] = c
	}
	c.seen = h.now
	c.connections++
	if blocked {
		c.blocked++
	}
}

func (h *hosts) oldest() string {
	oldest := ""
	for name, c := range h.by {
		if oldest == "" || c.seen < h.by[oldest].seen {
			oldest = name
		}
	}
	return oldest
}

// entry is an entry of the model's list host.
type entry struct {
	Name        string `json:"name"`
	Connections string `json:"connections"`
	Blocked     string `json:"blocked"`
}

func (h *hosts) list() []entry {
	list := []entry{}
	for _, name := range slices.Sorted(maps.Keys(h.by)) {
		c := h.by[name]
		list = append(list, entry{name, strconv.FormatUint(c.connections, 10), strconv.FormatUint(c.blocked, 10)})
	}
	return list
}
