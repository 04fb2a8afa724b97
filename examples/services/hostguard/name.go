// SPDX-License-Identifier: Apache-2.0

package main

// The host name in the first bytes that a client sends: of a TLS ClientHello (RFC 8446 section 4.1.2, RFC 6066 section 3)
// or an HTTP/1 request (RFC 9112 section 3.2). The bytes come from the network: nothing in them is trusted.

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// found is the result of looking for a name.
type found int

const (
	more  found = iota // what arrived is too short to tell
	named              // there is a name
	none               // there is none
)

// most is how many bytes a name is looked for in.
const most = 16 << 10

// hostName finds the host name in what a client has sent so far.
func hostName(sent []byte) (string, found) {
	name, is := "", none
	switch {
	case len(sent) == 0:
		return "", more
	case sent[0] == 22: // a handshake record
		name, is = serverName(sent)
	case sent[0] >= 'A' && sent[0] <= 'Z':
		name, is = hostHeader(sent)
	}
	if is == more && len(sent) >= most {
		is = none
	}
	if is != named {
		return "", is
	}
	if name = strings.TrimSuffix(strings.ToLower(name), "."); !isName(name) {
		return "", none
	}
	return name, named
}

// isName reports whether a text can be a host name, so that it can be shown and logged.
func isName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_' && r != ':' && r != '[' && r != ']'
	}) < 0
}

// hostHeader finds the Host header of a request.
func hostHeader(sent []byte) (string, found) {
	request, rest, ok := bytes.Cut(sent, []byte("\r\n"))
	if !ok {
		return "", more
	}
	if !bytes.HasSuffix(request, []byte(" HTTP/1.1")) && !bytes.HasSuffix(request, []byte(" HTTP/1.0")) {
		return "", none
	}
	for {
		line, after, ok := bytes.Cut(rest, []byte("\r\n"))
		switch key, value, _ := bytes.Cut(line, []byte(":")); {
		case !ok:
			return "", more
		case len(line) == 0:
			return "", none
		case strings.EqualFold(string(key), "host"):
			return withoutPort(strings.TrimSpace(string(value))), named
		}
		rest = after
	}
}

// withoutPort removes the port of a host.
func withoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.IndexByte(host[colon:], ']') >= 0 {
		return host
	}
	return host[:colon]
}

// cursor reads fields with a length in front of them.
type cursor struct {
	b     []byte
	short bool
}

// take returns the next n bytes; nil if there are fewer.
func (c *cursor) take(n int) []byte {
	if n > len(c.b) {
		c.b, c.short = nil, true
		return nil
	}
	taken := c.b[:n]
	c.b = c.b[n:]
	return taken
}

// number reads an integer of n bytes.
func (c *cursor) number(n int) int {
	var wide [4]byte
	copy(wide[4-n:], c.take(n))
	return int(binary.BigEndian.Uint32(wide[:]))
}

// vector reads bytes with their length in front, of n bytes.
func (c *cursor) vector(n int) []byte { return c.take(c.number(n)) }

// handshake joins the handshake data of records, as far as they have arrived.
func handshake(sent []byte) []byte {
	var joined []byte
	for len(sent) >= 5 && sent[0] == 22 {
		n := int(binary.BigEndian.Uint16(sent[3:]))
		joined = append(joined, sent[5:min(len(sent), 5+n)]...)
		if len(sent) < 5+n {
			break
		}
		sent = sent[5+n:]
	}
	return joined
}

// serverName finds the server name of a ClientHello.
func serverName(sent []byte) (string, found) {
	c := cursor{b: handshake(sent)}
	kind, length := c.number(1), c.number(3)
	switch {
	case c.short:
		return "", more
	case kind != 1:
		return "", none
	case length > len(c.b):
		if length > most {
			return "", none
		}
		return "", more
	}
	hello := cursor{b: c.b[:length]}
	hello.take(2 + 32) // version, random
	hello.vector(1)    // session
	hello.vector(2)    // ciphers
	hello.vector(1)    // compression
	for extensions := (cursor{b: hello.vector(2)}); !hello.short && len(extensions.b) > 0; {
		kind, body := extensions.number(2), extensions.vector(2)
		if extensions.short {
			break
		}
		if kind != 0 {
			continue
		}
		list := cursor{b: body}
		names := cursor{b: list.vector(2)}
		if kind, name := names.number(1), names.vector(2); !list.short && !names.short && kind == 0 {
			return string(name), named
		}
		break
	}
	return "", none
}
