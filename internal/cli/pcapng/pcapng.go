// SPDX-License-Identifier: Apache-2.0

// Package pcapng copies captures in pcapng format. A capture is written block by block, so the file never ends with a truncated
// block, however the capture ends. The packets, drops and losses in it are counted on the way.
package pcapng

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

// Contents is what a capture contains.
type Contents struct {
	Packets int
	Drops   map[string]int // by cube and reason
	// Lost is how many packets the capture does not have. Known is false if it does not say.
	Lost  uint64
	Known bool
}

// blocks copies a pcapng stream.
type blocks struct {
	in    *bufio.Reader
	order binary.ByteOrder
	seen  Contents
}

// Copy copies whole blocks until the stream ends, and returns what they contain. It writes all complete blocks before it
// waits for more. Its errors are those of the reader and the writer, and one for a stream that is no capture.
func Copy(to io.Writer, from io.Reader) (Contents, error) {
	b := blocks{in: bufio.NewReaderSize(from, wholeBlocks), order: binary.LittleEndian}
	err := b.copy(to)
	return b.seen, err
}

func (b *blocks) copy(to io.Writer) error {
	var out bytes.Buffer
	for {
		block, err := b.next()
		out.Write(block)
		if out.Len() >= wholeBlocks || b.in.Buffered() < blockFrame || err != nil {
			if _, werr := to.Write(out.Bytes()); werr != nil {
				return werr
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
		b.seen.Packets++
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
				b.seen.Lost, b.seen.Known = b.order.Uint64(v), true
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
			if b.seen.Drops == nil {
				b.seen.Drops = map[string]int{}
			}
			b.seen.Drops[strings.TrimSpace(cube+" "+strings.TrimSpace(reason))]++
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
