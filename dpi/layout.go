// SPDX-License-Identifier: Apache-2.0

// Package dpi has the tables of a cube `edpi` as other processes see them: flows, packets to be inspected, and decisions about
// flows.
package dpi

// What the tables hold; the C structs of cubes/edpi/edpi.h define them.

import (
	"bytes"
	"encoding/binary"

	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
)

// Key is struct edpi_key: a flow in both directions.
type Key struct {
	Low, High         inet.Address
	LowPort, HighPort flow.Port
	Protocol          uint8
	_                 [3]uint8
}

// KeyOf is the key of a packet's flow. reverse: the higher end has sent it.
func KeyOf(f *flow.Flow) (k Key, reverse bool) {
	k = Key{Low: f.Source, High: f.Destination, LowPort: f.SourcePort, HighPort: f.DestinationPort, Protocol: f.Protocol}
	if reverse = isReverse(f); reverse {
		k.Low, k.High, k.LowPort, k.HighPort = k.High, k.Low, k.HighPort, k.LowPort
	}
	return k, reverse
}

// isReverse is edpi_is_reverse.
func isReverse(f *flow.Flow) bool {
	e := binary.NativeEndian
	for at := 0; at < 16; at += 8 {
		if a, b := e.Uint64(f.Source[at:]), e.Uint64(f.Destination[at:]); a != b {
			return a > b
		}
	}
	return e.Uint16(f.SourcePort[:]) > e.Uint16(f.DestinationPort[:])
}

// Flags of a flow: enum edpi_flag.
type Flags uint32

// The flags.
const (
	Reverse  Flags = 1 << iota // the higher end has sent the first packet
	Decided                    // the classifier has answered
	Guessed                    // by ports or addresses alone
	Elephant                   // above a threshold, or of a class of elephants
	FinLow                     // the lower end has ended its side
	FinHigh
	Reset
	// Preliminary is a flag of a Class: further packets may tell more, and are inspected.
	Preliminary Flags = 256
)

// Ended reports whether both ends have closed a connection of TCP, or one has reset it.
func (f Flags) Ended() bool { return f&Reset != 0 || f&(FinLow|FinHigh) == FinLow|FinHigh }

// Class is struct edpi_class: what the classifier says of a flow.
type Class struct {
	// Protocol is that of the application, Master the one that carries it, 0 for none.
	Protocol, Master, Category uint16
	// Flags are Guessed and Preliminary.
	Flags uint16
	// Risks has a bit for each risk of nDPI.
	Risks uint64
}

// Flow is struct edpi_flow. Times are nanoseconds of the monotonic clock.
type Flow struct {
	// ID is when the first packet came. Two flows with the same key have different ones.
	ID   uint64
	Last uint64
	// Packets and Bytes are those from the lower end, then those from the higher one.
	Packets, Bytes [2]uint64
	Window         uint64
	Class          Class
	Flags          Flags
	Inspected      uint32
}

// Decision is struct edpi_decision: it is about the flow with this ID.
type Decision struct {
	ID    uint64
	Class Class
}

// Classifier is struct edpi_classifier.
type Classifier struct {
	// Beat says that all packets that came before it were seen.
	Beat uint64
	// Names is a hash of the names; 0 if there are none.
	Names uint64
	// Accepted is the hash of those that the numbers in the tables refer to. The daemon writes it.
	Accepted uint64
	Version  [48]byte
}

// Ended is struct edpi_ended: a flow that has ended.
type Ended struct {
	Key  Key
	Flow Flow
}

// Rows of tables by class: protocols, then categories, then elephants.
const (
	Protocols  = 1024
	Categories = 256
	Elephants  = Protocols + Categories
	Rows       = Elephants + 1
	// Risks are those of nDPI, whose names are behind those of the classes.
	Risks = 64
	Names = Rows + Risks
	// Undecided, NoRoom, Other and Fragment are packets without a protocol: of flows that are not decided, of flows without an
	// entry, others than IP, and later fragments of datagrams whose first one was not seen.
	Undecided    = Protocols - 1
	NoRoom       = Protocols - 2
	Other        = Protocols - 3
	Fragment     = Protocols - 4
	LastProtocol = Protocols - 5
)

// ProtocolRow is the row of the protocol of the application.
func (c Class) ProtocolRow() uint32 {
	if c.Protocol > LastProtocol {
		return 0
	}
	return uint32(c.Protocol)
}

// CategoryRow is the row of the category.
func (c Class) CategoryRow() uint32 { return Protocols + uint32(c.Category)%Categories }

// Name is an entry of the table of names, up to the first zero.
type Name [32]byte

// NameOf cuts a text off where it does not fit.
func NameOf(text string) (n Name) {
	copy(n[:len(n)-1], text)
	return n
}

// String returns the text.
func (n Name) String() string {
	text, _, _ := bytes.Cut(n[:], []byte{0})
	return string(text)
}

// All is the number of bytes in both directions.
func (f *Flow) All() uint64 { return f.Bytes[0] + f.Bytes[1] }
