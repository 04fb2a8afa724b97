// SPDX-License-Identifier: Apache-2.0

package elb_test

// Clients of the services: connections that say which server they have, and by whom they came.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
)

// conn is a connection of a client.
type conn struct {
	*net.TCPConn
	t      *testing.T
	r      *bufio.Reader
	server string // that answers
	source string // that it sees
	port   int
}

// dial opens one.
func (s *site) dial(to string) *conn {
	s.t.Helper()
	c := &conn{t: s.t}
	s.Hosts[0].Must(func() error {
		d := net.Dialer{Timeout: bpftest.Patience}
		is, err := d.Dial("tcp", to)
		if err == nil {
			c.TCPConn = is.(*net.TCPConn)
		}
		return err
	})
	s.t.Cleanup(func() { c.Close() })
	c.r = bufio.NewReader(c)
	_ = c.SetDeadline(time.Now().Add(4 * bpftest.Patience))
	line, err := c.r.ReadString('\n')
	if err != nil {
		s.t.Fatalf("connection to %s: %v", to, err)
	}
	if _, err := fmt.Sscan(line, &c.server, &c.source, &c.port); err != nil {
		s.t.Fatalf("the server says %q", line)
	}
	return c
}

// fast reports whether a connection is one of the cube.
func (c *conn) fast() bool { return c.port >= 10240 && c.port <= 32767 }

// works sends a stream that is longer than any buffer and compares what comes back.
func (c *conn) works(what string) {
	c.t.Helper()
	if err := c.echoes(); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// during does that as long as something happens, and once more.
func (c *conn) during(what string, happens func()) {
	c.t.Helper()
	begun, over, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			if err := c.echoes(); err != nil {
				ended <- err
				return
			}
			if n == 0 {
				close(begun)
			}
			select {
			case <-over:
				ended <- c.echoes()
				return
			default:
			}
		}
	}()
	select {
	case <-begun:
	case err := <-ended:
		c.t.Fatalf("before %s: %v", what, err)
	}
	happens()
	close(over)
	if err := <-ended; err != nil {
		c.t.Fatalf("while %s: %v", what, err)
	}
}

func (c *conn) echoes() error {
	sent := make([]byte, 1<<19)
	for i := range sent {
		sent[i] = byte(i * i >> 7)
	}
	go func() { _, _ = c.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c.r, got); err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return errors.New("the streams differ")
	}
	return nil
}
