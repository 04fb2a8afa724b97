// SPDX-License-Identifier: Apache-2.0

package health

// The limit of TLS handshakes. A handshake that waits for its server lets others compute, so servers that accept
// connections and stay silent delay none; and the time that a handshake waits for others is added to its deadline.

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// gate has as many places as handshakes may compute at the same time.
type gate chan struct{}

// gatedConn is a connection with a deadline. Between pass and leave it occupies a place of a gate, except in Read.
type gatedConn struct {
	net.Conn
	ctx     context.Context
	expires time.Time
	count   *counters
	gate    gate // nil: it needs no place
}

// extend sets the deadline.
func (c *gatedConn) extend(to time.Time) {
	c.expires = to
	_ = c.Conn.SetDeadline(to) // fails if the connection is closed, as its next use does
}

// pass waits for a place.
func (c *gatedConn) pass(g gate) error {
	select {
	case g <- struct{}{}:
	default:
		since := time.Now()
		select {
		case g <- struct{}{}:
		case <-c.ctx.Done():
			return errClosed
		}
		waited := time.Since(since)
		c.count.waited.Add(uint64(waited))
		c.extend(c.expires.Add(waited))
	}
	c.gate = g
	return nil
}

// leave gives the place back.
func (c *gatedConn) leave() {
	if c.gate != nil {
		<-c.gate
		c.gate = nil
	}
}

func (c *gatedConn) Read(p []byte) (n int, err error) {
	g := c.gate
	if g == nil {
		return c.Conn.Read(p)
	}
	c.leave()
	n, err = c.Conn.Read(p)
	if n == 0 && err != nil { // the handshake has failed: the error does not wait for others
		return n, err
	}
	if wait := c.pass(g); wait != nil {
		return n, wait
	}
	return n, err
}

// isEnd reports whether an error is the end of a stream.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
