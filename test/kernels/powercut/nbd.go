// SPDX-License-Identifier: Apache-2.0

package powercut

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The numbers of NBD's protocol: https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md.
const (
	magicServer  = 0x4e42444d41474943 // NBDMAGIC
	magicOption  = 0x49484156454f5054 // IHAVEOPT
	magicAnswer  = 0x0003e889045565a9
	magicRequest = 0x25609513
	magicReply   = 0x67446698

	fixedNewstyle, noZeroes = 1 << 0, 1 << 1

	optExport, optAbort, optGo = 1, 2, 7
	repAck, repInfo            = 1, 3
	repUnsupported             = 1<<31 | 1
	infoExport, infoBlockSize  = 0, 3

	hasFlags, canFlush, canForce = 1 << 0, 1 << 2, 1 << 3

	cmdRead, cmdWrite, cmdDisconnect, cmdFlush = 0, 1, 2, 3
	forceUnitAccess                            = 1 << 0

	errnoInvalid = 22

	maxOption  = 64 << 10
	maxRequest = 32 << 20
)

// Serve serves the disk to one client, and returns when the client is gone. Requests are answered in order. After the
// power cut it stops answering, and waits until the client is gone.
func (d *Disk) Serve(conn net.Conn) error {
	defer conn.Close()
	c := &client{in: bufio.NewReader(conn), out: bufio.NewWriter(conn), disk: d}
	err := c.greet()
	for err == nil {
		err = c.request()
	}
	switch {
	case errors.Is(err, errOff):
		_, err = io.Copy(io.Discard, c.in)
		return err
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// client is one connection.
type client struct {
	in   *bufio.Reader
	out  *bufio.Writer
	disk *Disk
}

// get reads numbers in the order of the network.
func (c *client) get(fields ...any) error {
	for _, f := range fields {
		if err := binary.Read(c.in, binary.BigEndian, f); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) put(fields ...any) error {
	for _, f := range fields {
		if err := binary.Write(c.out, binary.BigEndian, f); err != nil {
			return err
		}
	}
	return nil
}

// greet negotiates the export. There is one, whatever name is requested.
func (c *client) greet() error {
	if err := errors.Join(c.put(uint64(magicServer), uint64(magicOption), uint16(fixedNewstyle|noZeroes)), c.out.Flush()); err != nil {
		return err
	}
	var flags uint32
	if err := c.get(&flags); err != nil {
		return err
	}
	for {
		var magic uint64
		var option, n uint32
		if err := c.get(&magic, &option, &n); err != nil {
			return err
		}
		if magic != magicOption || n > maxOption {
			return fmt.Errorf("no option of NBD: %#x, %d bytes", magic, n)
		}
		if _, err := io.CopyN(io.Discard, c.in, int64(n)); err != nil {
			return err
		}
		done, err := c.option(option)
		if err = errors.Join(err, c.out.Flush()); done || err != nil {
			return err
		}
	}
}

// option answers one option. It reports whether requests follow.
func (c *client) option(option uint32) (done bool, err error) {
	size, can := uint64(c.disk.Size()), uint16(hasFlags|canFlush|canForce)
	answer := func(kind, n uint32) error { return c.put(uint64(magicAnswer), option, kind, n) }
	switch option {
	case optExport:
		return true, c.put(size, can)
	case optGo:
		return true, errors.Join(answer(repInfo, 12), c.put(uint16(infoExport), size, can),
			answer(repInfo, 14), c.put(uint16(infoBlockSize), uint32(BlockSize), uint32(BlockSize), uint32(maxRequest)), answer(repAck, 0))
	case optAbort:
		return false, errors.Join(answer(repAck, 0), c.out.Flush(), io.EOF)
	}
	return false, answer(repUnsupported, 0)
}

// request carries out one request.
func (c *client) request() error {
	var magic, n uint32
	var flags, command uint16
	var handle, at uint64
	if err := c.get(&magic, &flags, &command, &handle, &at, &n); err != nil {
		return err
	}
	if magic != magicRequest || n > maxRequest {
		return fmt.Errorf("no request of NBD: %#x, %d bytes", magic, n)
	}
	var data []byte
	var err error
	switch command {
	case cmdRead:
		data, err = c.disk.read(int64(at), int64(n))
	case cmdWrite:
		written := make([]byte, n)
		if _, err := io.ReadFull(c.in, written); err != nil {
			return err
		}
		err = c.disk.write(int64(at), written, flags&forceUnitAccess != 0)
	case cmdFlush:
		err = c.disk.flush()
	case cmdDisconnect:
		return io.EOF
	default:
		err = errors.ErrUnsupported
	}
	status := uint32(0)
	switch {
	case errors.Is(err, errOff):
		return err
	case err != nil:
		status = errnoInvalid
	}
	return errors.Join(c.put(uint32(magicReply), status, handle, data), c.out.Flush())
}
