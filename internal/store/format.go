// SPDX-License-Identifier: Apache-2.0

// The format on disk. All integers are little endian, all checksums CRC-32C.
//
//	journal   "PCNJRNL1" generation:8 base:8 sum:4   then transactions
//	  transaction   length:4 sequence:8 sum:4 (of the 12 bytes) payload sum:4 (of sequence and payload)
//	snapshot  "PCNSNAP1" generation:8 sequence:8 length:8 sum:4 payload sum:4 (of sequence and payload)
//	payload   count:4 then, for each record, deleted:1 keylen:4 vallen:4 key value
//
// The length has its own checksum, so that a damaged one is never used. Sequence numbers count transactions since the
// store was created; a journal's base is the number of the last transaction before it. They let recovery prove that a
// journal continues a state.

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	journalMagic  = "PCNJRNL1"
	snapshotMagic = "PCNSNAP1"

	journalHeaderLen  = 8 + 8 + 8 + 4
	snapshotHeaderLen = 8 + 8 + 8 + 8 + 4
	frameHeaderLen    = 4 + 8 + 4
	sumLen            = 4
	recordHeaderLen   = 1 + 4 + 4

	// MaxTransaction limits the encoded size of one Commit.
	MaxTransaction = 1 << 30
)

// errDamaged marks bytes that differ from what was written, as opposed to bytes that could not be read.
var errDamaged = errors.New("damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// payloadSum also covers the sequence number: a payload at another position is not accepted.
func payloadSum(seq uint64, payload []byte) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seq)
	return crc32.Update(sum(b[:]), castagnoli, payload)
}

func encodeJournalHeader(gen, base uint64) []byte {
	b := append(make([]byte, 0, journalHeaderLen), journalMagic...)
	b = binary.LittleEndian.AppendUint64(b, gen)
	b = binary.LittleEndian.AppendUint64(b, base)
	return binary.LittleEndian.AppendUint32(b, sum(b))
}

func decodeJournalHeader(b []byte, gen uint64) (base uint64, err error) {
	if len(b) < journalHeaderLen {
		return 0, fmt.Errorf("header of %d bytes: %w", len(b), errDamaged)
	}
	b = b[:journalHeaderLen]
	body := b[:journalHeaderLen-sumLen]
	if string(b[:8]) != journalMagic || binary.LittleEndian.Uint32(b[len(body):]) != sum(body) {
		return 0, fmt.Errorf("header: %w", errDamaged)
	}
	if got := binary.LittleEndian.Uint64(b[8:]); got != gen {
		return 0, fmt.Errorf("header of generation %d in the file of generation %d: %w", got, gen, errDamaged)
	}
	return binary.LittleEndian.Uint64(b[16:]), nil
}

// payloadLen is the encoded size of recs.
func payloadLen(recs []Record) int {
	n := 4
	for _, r := range recs {
		n += recordHeaderLen + len(r.Key) + len(r.Value)
	}
	return n
}

func appendPayload(b []byte, recs []Record) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(recs)))
	for _, r := range recs {
		deleted := byte(0)
		if r.Value == nil {
			deleted = 1
		}
		b = append(b, deleted)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Key)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Value)))
		b = append(b, r.Key...)
		b = append(b, r.Value...)
	}
	return b
}

// decodePayload copies its result: the caller's buffer may be large and short-lived.
func decodePayload(b []byte) ([]Record, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("payload of %d bytes: %w", len(b), errDamaged)
	}
	count := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if uint64(count)*recordHeaderLen > uint64(len(b)) {
		return nil, fmt.Errorf("%d records in %d bytes: %w", count, len(b), errDamaged)
	}
	recs := make([]Record, 0, count)
	for i := range count {
		if len(b) < recordHeaderLen {
			return nil, fmt.Errorf("record %d: %w", i, errDamaged)
		}
		deleted := b[0]
		keyLen := uint64(binary.LittleEndian.Uint32(b[1:]))
		valueLen := uint64(binary.LittleEndian.Uint32(b[5:]))
		b = b[recordHeaderLen:]
		if deleted > 1 || keyLen+valueLen > uint64(len(b)) {
			return nil, fmt.Errorf("record %d: %w", i, errDamaged)
		}
		rec := Record{Key: string(b[:keyLen])}
		if deleted == 0 {
			rec.Value = append([]byte{}, b[keyLen:keyLen+valueLen]...)
		}
		recs = append(recs, rec)
		b = b[keyLen+valueLen:]
	}
	if len(b) != 0 {
		return nil, fmt.Errorf("%d bytes after the last record: %w", len(b), errDamaged)
	}
	return recs, nil
}

// appendFrame appends one transaction in the journal's format.
func appendFrame(b []byte, seq uint64, recs []Record) []byte {
	start := len(b)
	length := payloadLen(recs)
	b = binary.LittleEndian.AppendUint32(b, uint32(length))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint32(b, sum(b[start:]))
	b = appendPayload(b, recs)
	return binary.LittleEndian.AppendUint32(b, payloadSum(seq, b[start+frameHeaderLen:]))
}

func frameLen(recs []Record) int { return frameHeaderLen + payloadLen(recs) + sumLen }

// decodeFrame decodes the transaction at the start of b, and returns its size.
func decodeFrame(b []byte) (seq uint64, recs []Record, size int, err error) {
	if len(b) < frameHeaderLen {
		return 0, nil, 0, fmt.Errorf("transaction header of %d bytes: %w", len(b), errDamaged)
	}
	if binary.LittleEndian.Uint32(b[12:]) != sum(b[:12]) {
		return 0, nil, 0, fmt.Errorf("transaction header: %w", errDamaged)
	}
	length := uint64(binary.LittleEndian.Uint32(b))
	seq = binary.LittleEndian.Uint64(b[4:])
	if length+frameHeaderLen+sumLen > uint64(len(b)) {
		return 0, nil, 0, fmt.Errorf("transaction %d is truncated: %w", seq, errDamaged)
	}
	payload := b[frameHeaderLen : frameHeaderLen+length]
	if binary.LittleEndian.Uint32(b[frameHeaderLen+length:]) != payloadSum(seq, payload) {
		return 0, nil, 0, fmt.Errorf("transaction %d: %w", seq, errDamaged)
	}
	recs, err = decodePayload(payload)
	return seq, recs, int(length) + frameHeaderLen + sumLen, err
}

func encodeSnapshot(gen, seq uint64, recs []Record) []byte {
	length := payloadLen(recs)
	b := make([]byte, 0, snapshotHeaderLen+length+sumLen)
	b = append(b, snapshotMagic...)
	b = binary.LittleEndian.AppendUint64(b, gen)
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(length))
	b = binary.LittleEndian.AppendUint32(b, sum(b))
	b = appendPayload(b, recs)
	return binary.LittleEndian.AppendUint32(b, payloadSum(seq, b[snapshotHeaderLen:]))
}

func decodeSnapshot(b []byte, gen uint64) (seq uint64, recs []Record, err error) {
	if len(b) < snapshotHeaderLen+sumLen || !bytes.HasPrefix(b, []byte(snapshotMagic)) {
		return 0, nil, fmt.Errorf("header: %w", errDamaged)
	}
	header := b[:snapshotHeaderLen-sumLen]
	if binary.LittleEndian.Uint32(b[len(header):]) != sum(header) || binary.LittleEndian.Uint64(b[8:]) != gen {
		return 0, nil, fmt.Errorf("header: %w", errDamaged)
	}
	seq = binary.LittleEndian.Uint64(b[16:])
	payload := b[snapshotHeaderLen : len(b)-sumLen]
	if binary.LittleEndian.Uint64(b[24:]) != uint64(len(payload)) ||
		binary.LittleEndian.Uint32(b[len(b)-sumLen:]) != payloadSum(seq, payload) {
		return 0, nil, fmt.Errorf("payload: %w", errDamaged)
	}
	recs, err = decodePayload(payload)
	return seq, recs, err
}
