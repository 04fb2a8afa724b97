// SPDX-License-Identifier: Apache-2.0

package stp

// BPDUs in Ethernet frames. BPDUs of a port's untagged VLAN are IEEE 802.1D's, which every bridge understands. Those of
// other VLANs are tagged, use another destination address, which bridges without such instances forward, and contain
// their VLAN.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
)

// Destination addresses.
var (
	GroupAddress = net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0}
	SharedVLAN   = net.HardwareAddr{0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcd}
)

var (
	llcHeader  = []byte{0x42, 0x42, 0x03}
	snapHeader = []byte{0xaa, 0xaa, 0x03, 0x00, 0x00, 0x0c, 0x01, 0x0b}
)

const (
	ethHeader = 14
	ethMin    = 60
	tagBytes  = 4
	tpid      = 0x8100
	// priorityTag is network control, the priority of BPDUs.
	priorityTag = 7 << 13
	// tlvAt is the offset of the originating VLAN in a BPDU of SharedVLAN: type 0, length 2, VLAN.
	tlvAt  = 36
	lenTLV = 6
)

// ErrFrame is returned for frames without a BPDU for this VLAN.
var ErrFrame = errors.New("not a frame with a BPDU")

// ErrVLAN is returned for a BPDU that was sent in another VLAN than it arrived in.
var ErrVLAN = errors.New("the BPDU is of another VLAN")

// Frame encodes a BPDU in a frame from a port's address: as specified by IEEE 802.1D if tagged is false, else tagged
// with the VLAN.
func Frame(src net.HardwareAddr, vlan uint16, tagged bool, bpdu []byte) []byte {
	f := make([]byte, 0, 128)
	if !tagged {
		f = append(append(f, GroupAddress...), src...)
		f = binary.BigEndian.AppendUint16(f, uint16(len(llcHeader)+len(bpdu)))
		f = append(append(f, llcHeader...), bpdu...)
		return append(f, make([]byte, max(0, ethMin-len(f)))...)
	}
	body := append(append([]byte{}, snapHeader...), bpdu...)
	body = append(body, make([]byte, max(0, len(snapHeader)+tlvAt-len(body)))...)
	body = append(body, 0, 0, 0, 2, byte(vlan>>8), byte(vlan))
	f = append(append(f, SharedVLAN...), src...)
	f = binary.BigEndian.AppendUint16(f, tpid)
	f = binary.BigEndian.AppendUint16(f, priorityTag|vlan)
	f = binary.BigEndian.AppendUint16(f, uint16(len(body)))
	f = append(f, body...)
	return append(f, make([]byte, max(0, ethMin+tagBytes-len(f)))...)
}

// Unframe returns the BPDU of a frame that was classified to a VLAN, tagged or untagged.
func Unframe(frame []byte, vlan uint16) ([]byte, error) {
	if len(frame) < ethHeader {
		return nil, ErrFrame
	}
	dst, rest, tagged := frame[:6], frame[12:], false
	if binary.BigEndian.Uint16(rest) == tpid {
		tagged = true
		rest = rest[min(tagBytes, len(rest)):]
	}
	if len(rest) < 2 {
		return nil, ErrFrame
	}
	length := int(binary.BigEndian.Uint16(rest))
	rest = rest[2:]
	if length > len(rest) {
		return nil, ErrFrame
	}
	rest = rest[:length]
	switch {
	case !tagged && bytes.Equal(dst, GroupAddress):
		bpdu, ok := bytes.CutPrefix(rest, llcHeader)
		if !ok {
			return nil, ErrFrame
		}
		return bpdu, nil
	case tagged && bytes.Equal(dst, SharedVLAN):
		return unframeShared(rest, vlan)
	}
	return nil, ErrFrame
}

func unframeShared(rest []byte, vlan uint16) ([]byte, error) {
	bpdu, ok := bytes.CutPrefix(rest, snapHeader)
	if !ok {
		return nil, ErrFrame
	}
	if len(bpdu) < tlvAt+lenTLV {
		return bpdu, nil
	}
	tlv := bpdu[tlvAt:]
	if binary.BigEndian.Uint16(tlv) == 0 && binary.BigEndian.Uint16(tlv[2:]) == 2 && binary.BigEndian.Uint16(tlv[4:]) != vlan {
		return nil, ErrVLAN
	}
	return bpdu[:tlvAt], nil
}
