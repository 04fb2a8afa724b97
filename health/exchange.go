// SPDX-License-Identifier: Apache-2.0

package health

// A request and its answer on a plain connection.

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errClosedEarly: the server closed the connection before the response was complete.
var errClosedEarly = errors.New("the server closed the connection without a response")

// request sends the request of an HTTP check on the connection.
func (t *thread) request(s *server) {
	s.phase = exchanging
	s.conn.uses++
	s.conn.answer.begin(s.check)
	n, err := unix.Write(s.conn.fd, s.check.request)
	switch {
	case err != nil:
		t.broken(s, err)
	case n < len(s.check.request): // an empty send buffer is larger than any request
		t.broken(s, unix.ENOBUFS)
	}
}

// receive reads what has arrived. closing says that the server may have closed the connection, so that there is an
// end of the stream to be read: epoll does not report it again.
func (t *thread) receive(s *server, closing bool) {
	for {
		n, err := unix.Read(s.conn.fd, t.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			t.broken(s, err)
			return
		}
		var done bool
		if n == 0 {
			done, err = s.conn.answer.end()
		} else {
			done, err = s.conn.answer.feed(t.buf[:n])
		}
		switch {
		case done:
			t.answered(s, closing)
			return
		case err != nil:
			t.broken(s, err)
			return
		case n < len(t.buf) && !closing:
			return
		}
	}
}

// answered judges a complete answer.
func (t *thread) answered(s *server, closing bool) {
	a := &s.conn.answer
	if closing || !a.reusable() || s.conn.uses >= maxUses {
		t.disconnect(s)
	}
	t.sched.finish(s, a.outcome())
	a.free()
}

// broken ends an exchange without an answer. If no byte of one has arrived on a kept connection, the server may have
// closed it before it saw the request, so the request is sent again on a new one.
func (t *thread) broken(s *server, why error) {
	again := s.conn.uses > 1 && !s.conn.answer.got && !s.retried
	t.closeSocket(s)
	s.conn.answer.free()
	if again {
		s.retried = true
		t.connect(s)
		return
	}
	t.sched.finish(s, failure(words(why)))
}
