// SPDX-License-Identifier: Apache-2.0

package front

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/internal/access"
)

// A client that sends or reads byte by byte occupies a connection, and for a while a request slot. The deadlines of
// net/http end that silently, so the connection itself records which deadline passed: an operator must be able to see
// who is slow, and how often.

// DropReason is why a connection was closed before its client got a response. It is a metric label.
type DropReason string

const (
	// dropTooMany means that the client was at its connection limit.
	dropTooMany DropReason = "too-many"
	// DropSilent means that no byte of a request arrived in time.
	DropSilent DropReason = "silent"
	// DropSlowRequest means that the header or the body was not complete in time.
	DropSlowRequest DropReason = "slow-request"
	// DropSlowAnswer means that the client did not read the response in time.
	DropSlowAnswer DropReason = "slow-answer"
)

// Says is the reason as a sentence.
func (r DropReason) Says() string {
	switch r {
	case dropTooMany:
		return fmt.Sprintf("this client has %d open connections", MaxConnsPerClient)
	case DropSilent:
		return "connection closed: no request arrived in time"
	case DropSlowRequest:
		return "connection closed: the request was not complete in time"
	case DropSlowAnswer:
		return "connection closed: the client did not read the response in time"
	}
	return string(r)
}

// dropped counts and records a connection that was closed by a limit.
func (f *Front) dropped(client *connInfo, reason DropReason) {
	f.requests.Dropped(string(reason))
	who, from := client.name()
	f.log.Debug("connection dropped", "client", who, "from", from, "reason", string(reason))
	f.audit.Write(access.Record{Time: time.Now(), Who: who, Role: access.None.String(), From: from, Refused: reason.Says()})
}

// name identifies the other end, as far as known, and where it connected.
func (i *connInfo) name() (who, from string) {
	if i.unix {
		return i.user, fmt.Sprintf("pid %d", i.peer.PID)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cert != nil {
		return i.cert.Subject, i.remote
	}
	return "unknown", i.remote
}

// limitedConn releases its slot once, and knows whether its client was too slow.
type limitedConn struct {
	net.Conn
	info    *connInfo
	once    sync.Once
	release func()

	// state is the last state that net/http reported.
	state   atomic.Int32
	created time.Time
	// aborted tells that the read deadline is in the past: this is how net/http cancels its own reads.
	aborted             atomic.Bool
	lateRead, lateWrite atomic.Bool
}

// SetReadDeadline implements net.Conn.
func (c *limitedConn) SetReadDeadline(t time.Time) error {
	c.aborted.Store(!t.IsZero() && t.Before(c.created))
	return c.Conn.SetReadDeadline(t)
}

// Read implements net.Conn.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.lateRead.Store(errors.Is(err, os.ErrDeadlineExceeded) && !c.aborted.Load())
	return n, err
}

// Write implements net.Conn.
func (c *limitedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.lateWrite.Store(true)
	}
	return n, err
}

// stateChanged records a state of the connection. On close, it returns the reason if the client was too slow. An idle
// connection has already received its response.
func (c *limitedConn) stateChanged(state http.ConnState) DropReason {
	before := http.ConnState(c.state.Swap(int32(state)))
	switch {
	case state != http.StateClosed:
	case c.lateWrite.Load():
		return DropSlowAnswer
	case !c.lateRead.Load() || before == http.StateIdle:
	case before == http.StateNew:
		return DropSilent
	default:
		return DropSlowRequest
	}
	return ""
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}
