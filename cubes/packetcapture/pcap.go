// SPDX-License-Identifier: Apache-2.0

package packetcapture

// The format of pcap files (draft-ietf-opsawg-pcap), in the byte order of the machine.

import (
	"encoding/binary"
	"time"
)

// Magic numbers, which tell the resolution of timestamps.
const (
	magicMicroseconds = 0xa1b2c3d4
	magicNanoseconds  = 0xa1b23c4d
)

const (
	versionMajor = 2
	versionMinor = 4
	linkEthernet = 1

	fileHeaderSize   = 24
	recordHeaderSize = 16
)

// format is what is different in files of different cubes.
type format struct {
	nanoseconds bool
	snap        uint32
}

func (c *Config) format() format { return format{c.Timestamps == Nanoseconds, c.snap()} }

// magic is the number at the start of a file.
func (f format) magic() uint32 {
	if f.nanoseconds {
		return magicNanoseconds
	}
	return magicMicroseconds
}

// header is the header of a file.
func (f format) header() []byte {
	e := binary.NativeEndian
	b := e.AppendUint32(make([]byte, 0, fileHeaderSize), f.magic())
	b = e.AppendUint16(e.AppendUint16(b, versionMajor), versionMinor)
	b = append(b, make([]byte, 8)...) // UTC, and an accuracy that nobody sets
	return e.AppendUint32(e.AppendUint32(b, f.snap), linkEthernet)
}

// record appends a packet.
func (f format) record(b []byte, at time.Time, data []byte, length int) []byte {
	e := binary.NativeEndian
	fraction := uint32(at.Nanosecond())
	if !f.nanoseconds {
		fraction /= 1000
	}
	b = e.AppendUint32(e.AppendUint32(b, uint32(at.Unix())), fraction)
	b = e.AppendUint32(e.AppendUint32(b, uint32(len(data))), uint32(length))
	return append(b, data...)
}

// nextRecord returns the size of the first record of b, which is a sequence of records, and its time in seconds.
func nextRecord(b []byte) (size int, seconds uint32) {
	e := binary.NativeEndian
	return recordHeaderSize + int(e.Uint32(b[8:])), e.Uint32(b)
}
