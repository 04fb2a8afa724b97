// SPDX-License-Identifier: Apache-2.0

package inspect

// Flows as IPFIX (RFC 7011) over UDP: two templates, for IPv4 and IPv6, with the application's name as RFC 6759 has it. Fields of
// both directions are those of RFC 5103.

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/polycube/polycube/dpi"
)

// The identifiers of our templates, and of the set that has templates.
const (
	templateSet = 2
	template4   = 256
	template6   = 257
)

const (
	// resend is how often templates are sent again: datagrams get lost.
	resend = 30 * time.Second
	// longest is how long a message may be, so that it fits the path.
	longest = 1400
	// variable is the length of a field that says its own.
	variable = 0xffff
	// reverse is the enterprise of fields of the other direction.
	reversePEN = 29305
)

// field is an information element.
type field struct {
	id, length uint16
	reverse    bool
}

// fields are those of both templates, after the addresses.
var fields = []field{
	{7, 2, false}, {11, 2, false}, {4, 1, false}, // ports, protocol
	{152, 8, false}, {153, 8, false}, // flowStartMilliseconds, flowEndMilliseconds
	{2, 8, false}, {1, 8, false}, {2, 8, true}, {1, 8, true}, // packetDeltaCount, octetDeltaCount
	{136, 1, false},                               // flowEndReason
	{96, variable, false}, {372, variable, false}, // applicationName, applicationCategoryName
}

// exporter sends flows to a collector.
type exporter struct {
	conn     net.Conn
	domain   uint32
	sequence uint32
	// templates is when they were sent last.
	templates time.Time
	// records wait in message, which has a header and a set for each.
	message []byte
	waiting uint32
	lost    uint64
}

func newExporter(to string, domain uint32) (*exporter, error) {
	conn, err := net.Dial("udp", to)
	if err != nil {
		return nil, fmt.Errorf("--ipfix: %w", err)
	}
	return &exporter{conn: conn, domain: domain}, nil
}

// add adds a flow to the message, and sends the one before if there is no room.
func (x *exporter) add(r *record, now time.Time) {
	set := dataSet(r)
	if len(x.message)+len(set) > longest {
		x.flush(now)
	}
	if x.message == nil {
		x.message = make([]byte, 16, longest)
		if now.Sub(x.templates) > resend {
			x.message = append(x.message, templates()...)
			x.templates = now
		}
	}
	x.message = append(x.message, set...)
	x.waiting++
}

// flush sends what waits.
func (x *exporter) flush(now time.Time) {
	if x.message == nil {
		return
	}
	e := binary.BigEndian
	e.PutUint16(x.message[0:], 10) // the version
	e.PutUint16(x.message[2:], uint16(len(x.message)))
	e.PutUint32(x.message[4:], uint32(now.Unix()))
	e.PutUint32(x.message[8:], x.sequence)
	e.PutUint32(x.message[12:], x.domain)
	if _, err := x.conn.Write(x.message); err != nil { // nobody listens there now
		x.lost += uint64(x.waiting)
		x.templates = time.Time{}
	}
	x.sequence += x.waiting
	x.message, x.waiting = nil, 0
}

func (x *exporter) close(now time.Time) error {
	x.flush(now)
	return x.conn.Close()
}

// templates is the set of our templates.
func templates() []byte {
	e := binary.BigEndian
	set := []byte{0, templateSet, 0, 0}
	for _, t := range []struct {
		id        uint16
		addresses []field
	}{{template4, []field{{8, 4, false}, {12, 4, false}}}, {template6, []field{{27, 16, false}, {28, 16, false}}}} {
		all := append(t.addresses, fields...)
		set = e.AppendUint16(e.AppendUint16(set, t.id), uint16(len(all)))
		for _, f := range all {
			if f.reverse {
				set = e.AppendUint32(e.AppendUint16(e.AppendUint16(set, f.id|0x8000), f.length), reversePEN)
				continue
			}
			set = e.AppendUint16(e.AppendUint16(set, f.id), f.length)
		}
	}
	e.PutUint16(set[2:], uint16(len(set)))
	return set
}

// dataSet is a set with one flow.
func dataSet(r *record) []byte {
	e, s := binary.BigEndian, r.source()
	ends := [2][]byte{r.Key.Low.Addr().AsSlice(), r.Key.High.Addr().AsSlice()}
	ports := [2][]byte{r.Key.LowPort[:], r.Key.HighPort[:]}
	set := e.AppendUint16(nil, template4)
	if len(ends[0]) == 16 {
		e.PutUint16(set, template6)
	}
	set = append(set, 0, 0)
	for _, part := range [][]byte{ends[s], ends[1-s], ports[s], ports[1-s], {r.Key.Protocol}} {
		set = append(set, part...)
	}
	start, end := r.times()
	for _, n := range []uint64{
		uint64(start.UnixMilli()), uint64(end.UnixMilli()),
		r.Flow.Packets[s], r.Flow.Bytes[s], r.Flow.Packets[1-s], r.Flow.Bytes[1-s],
	} {
		set = e.AppendUint64(set, n)
	}
	set = append(set, endReason(r.Flow.Flags))
	name := r.protocol
	if r.carrier != "" {
		name = r.carrier + "." + name
	}
	for _, text := range []string{name, r.category} { // less than 255 bytes: names have 31 at most
		set = append(append(set, byte(len(text))), text...)
	}
	e.PutUint16(set[2:], uint16(len(set)))
	return set
}

// endReason is the value of flowEndReason: idle timeout, or end of flow detected.
func endReason(f dpi.Flags) byte {
	if f.Ended() {
		return 3
	}
	return 1
}
