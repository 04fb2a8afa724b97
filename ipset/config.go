// SPDX-License-Identifier: Apache-2.0

package ipset

// A set and its elements as the model of service ipset has them.

import (
	"errors"
	"fmt"
	"strings"
)

// Config is the configuration of a set, without its elements.
type Config struct {
	SetType    string  `json:"set-type"`
	Family     string  `json:"family,omitempty"`
	Timeout    *uint32 `json:"timeout,omitempty"`
	Counters   bool    `json:"counters"`
	Comments   bool    `json:"comments"`
	Exceptions bool    `json:"exceptions"`
	MaxElem    *uint32 `json:"maxelem,omitempty"`
	FirstPort  *uint16 `json:"first-port,omitempty"`
	LastPort   *uint16 `json:"last-port,omitempty"`
	ElementsOf string  `json:"elements-of,omitempty"`
}

// Entry is an entry of the list `element`.
type Entry struct {
	Entry          string  `json:"entry"`
	Timeout        *uint32 `json:"timeout,omitempty"`
	NoMatch        bool    `json:"nomatch,omitempty"`
	Comment        string  `json:"comment,omitempty"`
	Position       uint32  `json:"position,omitempty"`
	InitialPackets uint64  `json:"initial-packets,omitempty"`
	InitialBytes   uint64  `json:"initial-bytes,omitempty"`
}

// Plain reports whether the elements are prefixes and nothing else, so that they are entries of the list `prefixes`.
func (c *Config) Plain() bool {
	return (c.SetType == "hash:ip" || c.SetType == "hash:net") && c.Timeout == nil && !c.Counters && !c.Comments && !c.Exceptions
}

// defaultMaxElem is that of the hash types, defaultSize that of list:set.
const (
	defaultMaxElem = 65536
	defaultSize    = 8
)

// Header returns what the set was created with.
func (c *Config) Header() Header {
	h := Header{Type: c.SetType, Timeout: c.Timeout, Counters: c.Counters, Comment: c.Comments}
	most := uint32(defaultMaxElem)
	if c.SetType == "list:set" {
		most = defaultSize
	}
	if c.MaxElem != nil {
		most = *c.MaxElem
	}
	switch {
	case strings.HasPrefix(c.SetType, "hash:"):
		h.HashSize, h.MaxElem = 1024, most
	case c.SetType == "list:set":
		h.Size = most
	case c.FirstPort != nil && c.LastPort != nil:
		h.First, h.Last = *c.FirstPort, *c.LastPort
	}
	if h.hasAddresses() {
		h.Family = 4
		if c.Family == "inet6" {
			h.Family = 6
		}
	}
	return h
}

// Config returns the configuration of a set that is created with a header.
func (h Header) Config() Config {
	c := Config{SetType: h.Type, Timeout: h.Timeout, Counters: h.Counters, Comments: h.Comment}
	switch {
	case h.Type == "bitmap:port":
		c.FirstPort, c.LastPort = &h.First, &h.Last
	case h.Type == "list:set":
		c.MaxElem = &h.Size
	default:
		c.MaxElem = &h.MaxElem
	}
	if h.Family != 0 {
		c.Family = map[uint8]string{4: "inet", 6: "inet6"}[h.Family]
	}
	return c
}

// Entry returns the entry of the list for an element, with its options.
func (h Header) Entry(e Element, o Options) (Entry, error) {
	out := Entry{Entry: h.Text(e), Timeout: o.Timeout, NoMatch: o.NoMatch, Comment: o.Comment, InitialPackets: o.Packets, InitialBytes: o.Bytes}
	switch {
	case o.Timeout != nil && h.Timeout == nil:
		return out, errors.New("Timeout cannot be used: set was created without timeout support")
	case o.Counted && !h.Counters:
		return out, errors.New("Packet/byte counters cannot be used: set was created without counter support")
	case o.Comment != "" && !h.Comment:
		return out, errors.New("Comment cannot be used: set was created without comment support")
	case o.NoMatch && h.Type != "hash:net" && h.Type != "hash:net,port":
		return out, fmt.Errorf("nomatch cannot be used with a set of type %s", h.Type)
	case (o.Before != "" || o.After != "") && h.Type != "list:set":
		return out, fmt.Errorf("before and after cannot be used with a set of type %s", h.Type)
	}
	return out, nil
}

// Single reads the text of an element that is no range, and has the form in which ipset prints it.
func (h Header) Single(text string) (Element, error) {
	e, err := h.Element(text)
	if err != nil {
		return e, err
	}
	all, err := h.Expand(e)
	if err != nil {
		return e, err
	}
	if len(all) != 1 {
		return e, fmt.Errorf("%s names %d elements: add them one by one, or by pcn-ipset", text, len(all))
	}
	if is := h.Text(all[0]); is != text {
		return e, fmt.Errorf("%s: write it as %s", text, is)
	}
	return all[0], nil
}
