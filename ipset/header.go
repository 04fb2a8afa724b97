// SPDX-License-Identifier: Apache-2.0

package ipset

// What a set is created with.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Header is the type of a set and its options.
type Header struct {
	// Type is the name of the type, such as hash:ip,port.
	Type string
	// Family is 4 or 6 in the hash types with addresses, 0 in others.
	Family uint8
	// HashSize and MaxElem are of the hash types.
	HashSize, MaxElem uint32
	// First and Last are the range of bitmap:port.
	First, Last uint16
	// Size is of list:set.
	Size uint32
	// Timeout is that of elements in seconds, nil if the set has none.
	Timeout           *uint32
	Counters, Comment bool
	// BucketSize and InitVal are what `ipset save` adds; 0 if they were not given.
	BucketSize, InitVal uint32
}

// types are the types and what their elements consist of.
var types = map[string][]string{
	"hash:ip": {"ip"}, "hash:net": {"net"}, "hash:ip,port": {"ip", "port"}, "hash:net,port": {"net", "port"},
	"hash:ip,port,ip": {"ip", "port", "address"}, "hash:mac": {"mac"}, "bitmap:port": {"ports"}, "list:set": {"set"},
}

// hasAddresses reports whether the elements have addresses.
func (h Header) hasAddresses() bool {
	return slices.Contains([]string{"ip", "net"}, types[h.Type][0])
}

func readHeader(name string, words []string) (h Header, err error) {
	if types[name] == nil {
		return h, fmt.Errorf("the set type %q is not supported", name)
	}
	h.Type = name
	hash := strings.HasPrefix(name, "hash:")
	if hash {
		h.HashSize, h.MaxElem = 1024, 65536
	}
	if h.hasAddresses() {
		h.Family = 4
	}
	if name == "list:set" {
		h.Size = 8
	}
	ranged := false
	for len(words) > 0 {
		option := words[0]
		words = words[1:]
		switch {
		case option == "timeout":
			var seconds uint32
			err = number32(&words, option, &seconds, maxTimeout)
			h.Timeout = &seconds
		case option == "counters":
			h.Counters = true
		case option == "comment":
			h.Comment = true
		case option == "family" && h.hasAddresses():
			err = h.readFamily(&words)
		case option == "hashsize" && hash:
			err = number32(&words, option, &h.HashSize, 1<<31)
			h.HashSize = powerOf2(h.HashSize)
		case option == "maxelem" && hash:
			err = number32(&words, option, &h.MaxElem, math.MaxUint32)
		case option == "bucketsize" && hash:
			err = number32(&words, option, &h.BucketSize, 14)
		case option == "initval" && hash:
			err = number32(&words, option, &h.InitVal, math.MaxUint32)
		case option == "size" && name == "list:set":
			err = number32(&words, option, &h.Size, math.MaxUint32)
		case option == "range" && name == "bitmap:port":
			ranged = true
			err = h.readRange(&words)
		default:
			err = fmt.Errorf("unknown argument %q of a set of type %s", option, name)
		}
		if err != nil {
			return h, err
		}
	}
	if name == "bitmap:port" && !ranged {
		return h, errors.New("the mandatory option range is missing")
	}
	return h, nil
}

// powerOf2 rounds a size of a hash up, as ipset does.
func powerOf2(n uint32) uint32 {
	size := uint32(64)
	for size < n {
		size *= 2
	}
	return size
}

func number32(words *[]string, option string, to *uint32, limit uint64) error {
	n, err := numberOf(words, option, limit)
	*to = uint32(n)
	return err
}

func (h *Header) readFamily(words *[]string) error {
	text, err := argument(words, "family")
	if err != nil {
		return err
	}
	var ok bool
	if h.Family, ok = map[string]uint8{"inet": 4, "inet6": 6}[text]; !ok {
		return fmt.Errorf("unknown family %q: it is inet or inet6", text)
	}
	return nil
}

func (h *Header) readRange(words *[]string) error {
	text, err := argument(words, "range")
	if err != nil {
		return err
	}
	h.First, h.Last, err = portRange(text)
	return err
}

// String returns the type and the options as `ipset save` prints them.
func (h Header) String() string {
	out := []string{h.Type}
	add := func(option string, n uint64) { out = append(out, option, strconv.FormatUint(n, 10)) }
	if h.Family != 0 {
		out = append(out, "family", map[uint8]string{4: "inet", 6: "inet6"}[h.Family])
	}
	switch {
	case h.Type == "bitmap:port":
		out = append(out, "range", fmt.Sprintf("%d-%d", h.First, h.Last))
	case h.Type == "list:set":
		add("size", uint64(h.Size))
	default:
		add("hashsize", uint64(h.HashSize))
		add("maxelem", uint64(h.MaxElem))
	}
	if h.Timeout != nil {
		add("timeout", uint64(*h.Timeout))
	}
	if h.Counters {
		out = append(out, "counters")
	}
	if h.Comment {
		out = append(out, "comment")
	}
	if h.BucketSize != 0 {
		add("bucketsize", uint64(h.BucketSize))
	}
	if h.InitVal != 0 {
		out = append(out, "initval", fmt.Sprintf("0x%08x", h.InitVal))
	}
	return strings.Join(out, " ")
}
