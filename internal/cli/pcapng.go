// SPDX-License-Identifier: Apache-2.0

// A capture arrives in pcapng format and is written block by block, so the file
// never ends with a truncated block, however the capture ends. The packets, drops
// and losses in it are counted on the way.

package cli

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Block types, and option codes (draft-ietf-opsawg-pcapng).
const (
	sectionBlock    = 0x0a0d0d0a
	statisticsBlock = 5
	packetBlock     = 6

	optionComment = 1
	optionDropped = 5 // isb_ifdrop
)

const (
	blockFrame = 12 // type, length, length again
	maxBlock   = 16 << 20
	// wholeBlocks is how many waiting bytes are written at once.
	wholeBlocks = 64 << 10
)

// blocks copies a pcapng stream.
type blocks struct {
	in    *bufio.Reader
	order binary.ByteOrder
	tally *tally
}

// copyBlocks copies whole blocks until the stream ends. It writes all complete
// blocks before it waits for more.
func copyBlocks(to io.Writer, from io.Reader, t *tally) error {
	b := blocks{in: bufio.NewReaderSize(from, wholeBlocks), order: binary.LittleEndian, tally: t}
	var out bytes.Buffer
	for {
		block, err := b.next()
		out.Write(block)
		if out.Len() >= wholeBlocks || b.in.Buffered() < blockFrame || err != nil {
			if _, werr := to.Write(out.Bytes()); werr != nil {
				return writeError("write the capture", werr)
			}
			out.Reset()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b.count(block)
	}
}

// next reads a block. io.EOF is the end of the stream, also within a block.
func (b *blocks) next() ([]byte, error) {
	head, err := b.in.Peek(blockFrame)
	if err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(head) == sectionBlock { // it reads the same in both orders
		b.order = binary.LittleEndian
		if binary.BigEndian.Uint32(head[8:]) == 0x1a2b3c4d {
			b.order = binary.BigEndian
		}
	}
	length := b.order.Uint32(head[4:])
	if length < blockFrame || length > maxBlock || length%4 != 0 {
		return nil, fmt.Errorf("cannot parse the daemon's response: a pcapng block has %d bytes", length)
	}
	block := make([]byte, length)
	if _, err := io.ReadFull(b.in, block); errors.Is(err, io.ErrUnexpectedEOF) {
		_, err = b.in.Peek(1) // how the stream ended
		return nil, err
	} else if err != nil {
		return nil, err
	}
	return block, nil
}

// count updates the tally from a block.
func (b *blocks) count(block []byte) {
	body := block[8 : len(block)-4]
	switch b.order.Uint32(block) {
	case packetBlock:
		b.tally.count++
		if len(body) < 20 {
			return
		}
		captured := int(b.order.Uint32(body[12:]))
		if data := body[20:]; captured >= 0 && captured <= len(data) {
			b.options(data[min(len(data), padded(captured)):], b.fate())
		}
	case statisticsBlock:
		if len(body) < 12 {
			return
		}
		b.options(body[12:], func(code uint16, v []byte) {
			if code == optionDropped && len(v) == 8 {
				b.tally.lost, b.tally.known = b.order.Uint64(v), true
			}
		})
	}
}

// fate reads the comments of one packet: its port and its fate.
func (b *blocks) fate() func(code uint16, v []byte) {
	cube := ""
	return func(code uint16, v []byte) {
		if code != optionComment {
			return
		}
		if at, ok := strings.CutPrefix(string(v), "port "); ok {
			cube, _, _ = strings.Cut(at, ":")
		} else if reason, ok := strings.CutPrefix(string(v), "fate drop"); ok {
			b.tally.dropped(cube, strings.TrimSpace(reason))
		}
	}
}

// options calls f with each option of a list.
func (b *blocks) options(list []byte, f func(code uint16, v []byte)) {
	for len(list) >= 4 {
		code, length := b.order.Uint16(list), int(b.order.Uint16(list[2:]))
		list = list[4:]
		if code == 0 || length > len(list) {
			return
		}
		f(code, list[:length])
		list = list[min(len(list), padded(length)):]
	}
}

// padded is a length padded to a multiple of four.
func padded(n int) int { return (n + 3) &^ 3 }
