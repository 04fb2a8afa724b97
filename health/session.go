// SPDX-License-Identifier: Apache-2.0

package health

// HTTPS and gRPC: a goroutine for each check in progress, which gets a connected socket or the session that the last
// check has left. The computations of TLS handshakes are limited in number; whatever waits for a server is not.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// session is a kept connection of HTTPS or gRPC. One goroutine at a time uses it.
type session struct {
	conn *gatedConn
	// secure is the TLS connection; of gRPC without TLS, conn itself.
	secure net.Conn
	grpc   *grpcClient
	uses   int
}

// close ends the connection; a nil session has none.
func (s *session) close() {
	if s == nil {
		return
	}
	if s.conn != nil {
		_ = s.conn.Conn.SetDeadline(time.Now().Add(time.Second)) // for the notices of gRPC and TLS
	}
	if s.grpc != nil {
		s.grpc.close()
	}
	if s.secure != nil {
		s.secure.Close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
}

// job is a check of a goroutine.
type job struct {
	server  *server // only to find it again: it belongs to the thread
	serial  uint64
	check   *prepared
	session *session
	fd      int // a new connection, or -1
	timeout time.Duration
	expires time.Time
}

// result is what a goroutine has found.
type result struct {
	server  *server
	serial  uint64
	out     outcome
	session *session // to be kept, or nil
	// again says that a kept connection turned out to be closed.
	again bool
}

// launch gives the check to a goroutine.
func (t *thread) launch(s *server, fd int) {
	t.sched.wheel.stop(&s.timer)
	s.phase = working
	j := &job{server: s, serial: s.serial, check: s.check, session: s.session, fd: fd,
		timeout: s.timeout, expires: t.base.Add(s.deadline())}
	s.session = nil
	t.c.jobs.Add(1)
	go func() {
		defer t.c.jobs.Done()
		r, unused := j.run(t.c, t.gate)
		t.c.mu.Lock()
		t.c.results = append(t.c.results, r)
		t.c.mu.Unlock()
		t.c.wakeThread()
		unused.close() // which may wait for the server, so the result comes first
	}()
}

// result takes what a goroutine has found.
func (t *thread) result(r result) {
	s := r.server
	defer t.recovered(s)
	switch {
	case r.serial != s.serial:
		t.c.jobs.Add(1)
		go func() {
			defer t.c.jobs.Done()
			r.session.close()
		}()
	case r.again && !s.retried:
		s.retried = true
		t.connect(s)
		if s.phase == connecting {
			t.sched.wheel.set(&s.timer, s.deadline())
		}
	default:
		s.session = r.session
		t.sched.finish(s, r.out)
	}
}

// run makes the check. unused is a session that is not kept.
func (j *job) run(c *Checker, gate gate) (r result, unused *session) {
	r.server, r.serial = j.server, j.serial
	is := j.session
	defer func() {
		if p := recover(); p != nil {
			c.count.panics.Add(1)
			r.session, r.out = nil, failure(panicText(p))
		}
		if r.session == nil {
			unused = is
		}
	}()
	kept := is != nil
	if !kept {
		is = &session{}
		if err := is.open(c, j, gate); err != nil {
			r.out = j.explain(err)
			return r, nil
		}
	}
	stop := context.AfterFunc(c.ctx, func() { is.conn.Close() })
	defer stop()
	is.conn.extend(j.expires)
	if is.grpc != nil { // the library reads all the time
		_ = is.conn.Conn.SetDeadline(time.Time{})
	}
	is.uses++
	out, keep, err := is.exchange(c.ctx, j)
	switch {
	case err != nil && kept && !tooLate(err):
		r.again, r.out = true, j.explain(err)
		return r, nil
	case err != nil:
		r.out = j.explain(err)
		return r, nil
	}
	r.out = out
	if keep && is.uses < maxUses {
		r.session = is
	}
	return r, nil
}

func (s *session) exchange(ctx context.Context, j *job) (out outcome, keep bool, err error) {
	if j.check.Kind == GRPC {
		return s.grpc.check(ctx, j.check, s.conn.expires)
	}
	return exchangeHTTP(s.secure, j.check, j.timeout)
}

// exchangeHTTP sends a request and reads its answer. The timeout is only for its error.
func exchangeHTTP(conn net.Conn, p *prepared, timeout time.Duration) (out outcome, keep bool, err error) {
	if _, err := conn.Write(p.request); err != nil {
		return outcome{}, false, err
	}
	var a answer
	a.begin(p)
	buf := make([]byte, 4<<10)
	for {
		n, err := conn.Read(buf)
		done, wrong := a.feed(buf[:n])
		if !done && wrong == nil && err != nil && isEnd(err) {
			done, wrong = a.end()
		}
		switch {
		case done:
			return a.outcome(), a.reusable(), nil
		case wrong != nil && a.got: // an answer, but not a valid one
			return failure(words(wrong)), false, nil
		case wrong != nil:
			return outcome{}, false, wrong
		case err != nil && a.got && errors.Is(err, os.ErrDeadlineExceeded):
			return timedOut("the response was incomplete after " + seconds(timeout)), false, nil
		case err != nil:
			return outcome{}, false, err
		}
	}
}

// open makes a session of a connected socket.
func (s *session) open(c *Checker, j *job, gate gate) error {
	file := os.NewFile(uintptr(j.fd), "health check")
	raw, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return fmt.Errorf("use the connection: %w", err)
	}
	s.conn = &gatedConn{Conn: raw, expires: j.expires, count: &c.count, ctx: c.ctx}
	s.secure = s.conn
	s.conn.extend(j.expires)
	if j.check.Kind == HTTPS || j.check.TLS {
		if err := s.handshake(c, j.check, gate); err != nil {
			return err
		}
		j.expires = s.conn.expires
	}
	if j.check.Kind == GRPC {
		s.grpc, err = newGRPC(s.secure, j.check)
	}
	return err
}

// handshake makes the TLS handshake.
func (s *session) handshake(c *Checker, p *prepared, gate gate) error {
	config := &tls.Config{ServerName: p.ServerName, RootCAs: p.roots, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: p.SkipVerify, NextProtos: []string{"http/1.1"}} //nolint:gosec // the user's choice
	if p.Kind == GRPC {
		config.NextProtos = []string{"h2"}
	}
	stop := context.AfterFunc(c.ctx, func() { s.conn.Close() })
	defer stop()
	is := tls.Client(s.conn, config)
	c.count.handshakes.Add(1)
	if err := s.conn.pass(gate); err != nil {
		return err
	}
	defer s.conn.leave()
	if err := is.Handshake(); err != nil {
		return err
	}
	s.secure = is
	if p.Kind == GRPC && is.ConnectionState().NegotiatedProtocol != "h2" {
		return errors.New("the server does not offer HTTP/2 over TLS (ALPN h2)")
	}
	return nil
}

// tooLate reports whether an error is that the deadline has passed.
func tooLate(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// explain says what an error means for the server.
func (j *job) explain(err error) outcome {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case tooLate(err):
		return timedOut("connected, but no response within " + seconds(j.timeout))
	case errors.As(err, &unknown):
		return failure("the certificate is signed by an unknown authority")
	case errors.As(err, &name):
		return failure("the certificate is not for " + j.check.ServerName)
	case errors.As(err, &record):
		return failure("the server does not speak TLS")
	case errors.As(err, &alert):
		return failure("the server refused TLS: " + alert.Error())
	case isEnd(err):
		return failure("the server closed the connection")
	}
	return failure(limited(words(err)))
}

// limited bounds a text that a server may have chosen.
func limited(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "..."
}
