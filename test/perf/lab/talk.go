// SPDX-License-Identifier: Apache-2.0

// Many TCP connections at once from one host to another: requests over open ones, or one request for each. Client and
// server have a thread each, which waits for all of its connections.

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// A request and its answer have so many bytes.
const (
	requestSize = 64
	answerSize  = 512
)

// Talk is what a client and a server on CPUs 0 and 1 did.
type Talk struct {
	// Requests is how many were answered, in Took.
	Requests int
	Took     time.Duration
	// NS is the CPU time of both, in all.
	NS int64
}

// Talk lets a host send requests to a server at `to`, which listens on another host at the port `listen`: over a number of
// connections, or each over one of its own, with as many at a time.
func (r *Rig) Talk(from, server *netns.Node, to netip.AddrPort, listen uint16, connections int, each bool, length time.Duration) (t Talk, err error) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	s, err := newListener(server, listen)
	if err != nil {
		return t, err
	}
	served := make(chan error, 1)
	var serverNS int64
	go func() {
		ns, err := CPUTime(lastCPU(), func() error { return s.serve(ctx) })
		serverNS = ns
		served <- errors.Join(err, unix.Close(s.fd))
	}()
	c := &caller{to: &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}, each: each, until: time.Now().Add(length)}
	start := time.Now()
	t.NS, err = CPUTime(0, func() error {
		return from.Do(func() error { return netns.Uninterrupted(func() error { return c.call(connections) }) })
	})
	t.Took, t.Requests = time.Since(start), c.answered
	stop()
	err = errors.Join(err, <-served)
	t.NS += serverNS
	if err == nil && t.Requests == 0 {
		err = fmt.Errorf("no request to %s was answered: %w", to, errSilent)
	}
	return t, err
}

var errSilent = errors.New("the server is silent")

// poll waits for sockets.
type poll struct {
	fd     int
	events [64]unix.EpollEvent
}

func newPoll() (*poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poll{fd: fd}, nil
}

func (p *poll) add(fd int, events uint32) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// wait returns the sockets that are ready, after some time none.
func (p *poll) wait() ([]unix.EpollEvent, error) {
	n, err := unix.EpollWait(p.fd, p.events[:], 20)
	if errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return p.events[:n], nil
}

// listener is the server's socket.
type listener struct{ fd int }

func newListener(host *netns.Node, port uint16) (*listener, error) {
	var fd int
	err := host.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.Bind(fd, &unix.SockaddrInet4{Port: int(port)}), unix.Listen(fd, 4096))
	})
	if err != nil {
		return nil, fmt.Errorf("listen on port %d: %w", port, err)
	}
	return &listener{fd}, nil
}

// serve answers requests until the context ends. A request arrives whole, as it is one small segment.
func (l *listener) serve(ctx context.Context) (err error) {
	p, err := newPoll()
	if err != nil {
		return err
	}
	open := map[int]bool{}
	defer func() {
		for fd := range open {
			err = errors.Join(err, unix.Close(fd))
		}
		err = errors.Join(err, unix.Close(p.fd))
	}()
	if err := p.add(l.fd, unix.EPOLLIN); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	answer := make([]byte, answerSize)
	for ctx.Err() == nil {
		ready, err := p.wait()
		if err != nil {
			return err
		}
		for _, e := range ready {
			fd := int(e.Fd)
			if fd == l.fd {
				err = l.accept(p, open)
			} else if n, rerr := unix.Read(fd, answer[:requestSize]); n > 0 {
				_, err = unix.Write(fd, answer)
			} else if !errors.Is(rerr, unix.EAGAIN) { // the client has gone
				delete(open, fd)
				err = unix.Close(fd)
			}
			if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
				return fmt.Errorf("server: %w", err)
			}
		}
	}
	return nil
}

func (l *listener) accept(p *poll, open map[int]bool) error {
	for {
		fd, _, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ECONNABORTED) {
			return nil
		}
		if err != nil {
			return err
		}
		open[fd] = true
		if err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1), p.add(fd, unix.EPOLLIN)); err != nil {
			return err
		}
	}
}

// caller is a client.
type caller struct {
	to       *unix.SockaddrInet4
	each     bool // a connection for each request
	until    time.Time
	poll     *poll
	missing  map[int]int // bytes of the answer that have not come yet, by connection
	answered int
}

// call sends requests over some connections until the time is over.
func (c *caller) call(connections int) (err error) {
	if c.poll, err = newPoll(); err != nil {
		return err
	}
	c.missing = map[int]int{}
	defer func() {
		for fd := range c.missing {
			err = errors.Join(err, unix.Close(fd))
		}
		err = errors.Join(err, unix.Close(c.poll.fd))
	}()
	for range connections {
		if err := c.open(); err != nil {
			return fmt.Errorf("client: %w", err)
		}
	}
	for time.Now().Before(c.until) {
		ready, err := c.poll.wait()
		if err != nil {
			return err
		}
		for _, e := range ready {
			if err := c.handle(int(e.Fd), e.Events); err != nil {
				return fmt.Errorf("client: %w", err)
			}
		}
	}
	return nil
}

// open begins a connection. It is closed by a reset, so that its port is free at once.
func (c *caller) open() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	c.missing[fd] = 0
	err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, c.to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	return c.poll.add(fd, unix.EPOLLOUT)
}

// handle sends the first request over a connection that has opened, or reads an answer and sends the next request.
func (c *caller) handle(fd int, events uint32) error {
	var buf [answerSize]byte
	if events&unix.EPOLLOUT != 0 && c.missing[fd] == 0 {
		c.missing[fd] = answerSize
		if _, err := unix.Write(fd, buf[:requestSize]); err != nil {
			return err
		}
		return unix.EpollCtl(c.poll.fd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	}
	n, err := unix.Read(fd, buf[:])
	if errors.Is(err, unix.EAGAIN) {
		return nil
	}
	if err != nil || n == 0 {
		return errors.Join(err, errSilent)
	}
	if c.missing[fd] -= n; c.missing[fd] > 0 {
		return nil
	}
	c.answered++
	if c.each {
		delete(c.missing, fd)
		return errors.Join(unix.Close(fd), c.open())
	}
	c.missing[fd] = answerSize
	_, err = unix.Write(fd, buf[:requestSize])
	return err
}
