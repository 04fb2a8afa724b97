// SPDX-License-Identifier: Apache-2.0

package n4

// The server, and the goroutine that owns its state.

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/polycube/polycube/internal/n4/store"
	"github.com/polycube/polycube/pdusession"
)

// maxBatch is the number of messages that are carried out together.
const maxBatch = 256

// ErrClosed says that the server has ended.
var ErrClosed = errors.New("the N4 server has ended")

// Server is a PFCP server. Its methods can be called by any goroutine. What it embeds belongs to the goroutine of Run, and
// to the caller before Run.
type Server struct {
	associations

	notices chan pdusession.Notice
	calls   chan func()
	ended   chan struct{}
}

// datagram is a message with the address of the SMF.
type datagram struct {
	peer  netip.AddrPort
	bytes []byte
}

// outgoing is a message to be sent. It may depend on what is being stored.
type outgoing struct {
	datagram
	depends bool
}

// firstSequence is the number of the first own request.
func firstSequence() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return binary.BigEndian.Uint32(b[:])
}

// New opens the store, reads the sessions from it, and listens. Sessions and Reinstalled are for the time before Run.
func New(c Config, data DataPlane) (*Server, error) {
	c = c.withDefaults()
	s := &Server{notices: make(chan pdusession.Notice, maxBatch), calls: make(chan func()), ended: make(chan struct{})}
	s.config, s.log, s.inbox, s.counters = c, c.Log, make(chan datagram, 16*maxBatch), newCounters()
	// An SMF may remember requests of the program before this one: new ones must not seem to be repeated.
	s.received, s.requests, s.sequence = newReceived(), map[uint32]*request{}, firstSequence()
	s.senders = senders{}
	s.data, s.sessions, s.resources, s.peers = data, newSessions(s.senders), newResources(&c, data), map[string]*peer{}
	s.leaving = map[string]*leaving{}
	s.touched, s.dirty = map[uint64]struct{}{}, map[uint64]struct{}{}
	s.buffers.New = func() any { b := make([]byte, maxDatagram); return &b }
	var err error
	if s.store, err = store.Open(c.Store); err != nil {
		return nil, fmt.Errorf("N4 sessions: %w", err)
	}
	if err = s.load(); err == nil {
		s.conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(c.Address))
	}
	if err != nil {
		return nil, fmt.Errorf("N4 on %v: %w", c.Address, errors.Join(err, s.store.Close()))
	}
	if err := s.conn.SetReadBuffer(4 << 20); err != nil {
		s.log.Debug("N4 receive buffer", "error", err)
	}
	return s, nil
}

// Addr is the address that the server listens on.
func (s *Server) Addr() netip.AddrPort {
	return s.conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// Run serves until the context ends. It closes the socket and the store.
func (s *Server) Run(ctx context.Context) error {
	reader := make(chan error, 1)
	go func() { reader <- s.read() }()
	s.begin()
	err := s.loop(ctx, reader)
	close(s.ended)
	return errors.Join(err, s.conn.Close(), s.store.Close())
}

func (s *Server) loop(ctx context.Context, reader <-chan error) error {
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		wake.Reset(s.untilNext())
		select {
		case <-ctx.Done():
			return nil
		case err := <-reader:
			return err
		case <-wake.C:
		case d := <-s.inbox:
			s.receive(d)
		case n := <-s.notices:
			s.notice(n)
		case call := <-s.calls:
			call()
		}
		s.drain()
		s.runTimers()
		s.flush()
	}
}

// drain takes what waits, up to a batch.
func (s *Server) drain() {
	for range maxBatch - 1 {
		select {
		case d := <-s.inbox:
			s.receive(d)
		case n := <-s.notices:
			s.notice(n)
		default:
			return
		}
	}
}

// flush carries out the batch, writes what has changed, and then sends.
func (s *Server) flush() {
	s.commit()
	s.sendAll(s.save())
}

// do calls a function in the goroutine of Run, and waits for it.
func (s *Server) do(call func()) error {
	done := make(chan struct{})
	select {
	case s.calls <- func() { defer close(done); call() }:
		<-done
		return nil
	case <-s.ended:
		return ErrClosed
	}
}

// Notice is called with each notice of the data plane. It waits if many are there already.
func (s *Server) Notice(n pdusession.Notice) {
	select {
	case s.notices <- n:
	case <-s.ended:
	}
}

// begin starts the timers.
func (s *Server) begin() {
	now := time.Now()
	for _, p := range s.peers {
		s.beat(p)
	}
	for _, addr := range s.config.Peers {
		s.setUp(addr)
	}
	s.forgetOften()
	unfinished := map[string]bool{}
	for _, is := range s.sessions.byNumber {
		if s.left(is) {
			unfinished[is.Node] = true
			continue
		}
		s.schedule(is, now)
		s.flushReports(is)
	}
	for node := range unfinished {
		// There is nothing else that could be refused.
		_ = s.leaveAll(node, "what the program before began", func(is *session) bool { return !s.left(is) }, func() {})
	}
	s.flush()
}
