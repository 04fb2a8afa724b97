// SPDX-License-Identifier: Apache-2.0

// A server of a farm: lines over TCP, messages over WebSockets, datagrams, and datagrams with the connection IDs of QUIC. Each
// answer begins with the number of the server.

package e2e

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/websocket"
)

// asFarmServer is the variable that makes the test binary a server: its number, what it adds to ports, and its addresses.
const asFarmServer = "POLYCUBE_E2E_FARM_SERVER"

// farmServer is one.
type farmServer struct {
	number int
	quic   map[string]*quicConnection // by connection ID, of the client's first packet as well
}

func beFarmServer() {
	s := farmServer{quic: map[string]*quicConnection{}}
	var shift int
	var addresses [2]string
	if _, err := fmt.Sscan(os.Getenv(asFarmServer), &s.number, &shift, &addresses[0], &addresses[1]); err != nil {
		failServer(err)
	}
	all := make(chan func(), 1) // QUIC's connections may come at either address
	for _, a := range addresses {
		for port, serve := range map[int]func(net.Listener) error{80: s.lines, 81: s.webSockets} {
			l, err := net.Listen("tcp", net.JoinHostPort(a, fmt.Sprint(port+shift)))
			failServer(err)
			go func() { failServer(serve(l)) }()
		}
		for port, answer := range map[int]func([]byte) []byte{53: s.datagram, quicPort: s.quicPacket} {
			c, err := net.ListenPacket("udp", net.JoinHostPort(a, fmt.Sprint(port+shift)))
			failServer(err)
			go func() { failServer(answerPackets(c, answer, all)) }()
		}
	}
	fmt.Println("listening")
	for answer := range all {
		answer()
	}
}

// failServer ends the server if there is an error.
func failServer(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "server of a farm:", err)
		os.Exit(1)
	}
}

// lines returns each line.
func (s *farmServer) lines(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			for in := bufio.NewScanner(c); in.Scan(); {
				if _, err := fmt.Fprintf(c, "%d %s\n", s.number, in.Text()); err != nil {
					return
				}
			}
		}()
	}
}

// pushEvery is how often a server sends a message over a WebSocket by itself.
const pushEvery = 500 * time.Millisecond

// webSockets returns each message, and sends some by itself.
func (s *farmServer) webSockets(l net.Listener) error {
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: websocket.Handler(func(c *websocket.Conn) {
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			tick := time.NewTicker(pushEvery)
			defer tick.Stop()
			for n := 1; ; n++ {
				select {
				case <-ended:
					return
				case <-tick.C:
					if websocket.Message.Send(c, fmt.Sprintf("%d %s%d", s.number, pushed, n)) != nil {
						return
					}
				}
			}
		}()
		for line := ""; websocket.Message.Receive(c, &line) == nil; {
			if websocket.Message.Send(c, fmt.Sprintf("%d %s", s.number, line)) != nil {
				return
			}
		}
	})}
	return server.Serve(l)
}

// answerPackets answers each datagram; all answers of the server are made one after the other.
func answerPackets(c net.PacketConn, answer func([]byte) []byte, all chan<- func()) error {
	for {
		b := make([]byte, 2048)
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return err
		}
		all <- func() {
			_, _ = c.WriteTo(answer(b[:n]), from) // the client asks again
		}
	}
}

// datagram returns what a datagram says.
func (s *farmServer) datagram(b []byte) []byte { return fmt.Appendf(nil, "%d %s", s.number, b) }

const (
	// quicConfig is the number of the configuration of connection IDs.
	quicConfig       = 1
	quicServerLength = 4
	quicIDLength     = 1 + quicServerLength + 8
)

// quicServer is the ID of a server in connection IDs.
func quicServer(n int) []byte { return []byte{0xa0, 0, 0xbb, byte(n)} }

// quicConnection is a connection as the server knows it.
type quicConnection struct {
	id, client []byte // the connection IDs of both sides
	received   int    // lines
}

var errNotQUIC = errors.New("not a packet of QUIC")

// readQUIC reads a packet with a long or a short header; the source's ID is in long ones alone.
func readQUIC(b []byte, length int) (to, from, data []byte, err error) {
	if len(b) > 0 && b[0]&0x80 == 0 {
		if len(b) < 1+length {
			return nil, nil, nil, errNotQUIC
		}
		return b[1 : 1+length], nil, b[1+length:], nil
	}
	if len(b) < 6 || len(b) < 7+int(b[5]) {
		return nil, nil, nil, errNotQUIC
	}
	to, b = b[6:6+b[5]], b[6+b[5]:]
	if len(b) < 1+int(b[0]) {
		return nil, nil, nil, errNotQUIC
	}
	return to, b[1 : 1+b[0]], b[1+b[0]:], nil
}

// longQUIC is a packet with a long header, which opens a connection.
func longQUIC(to, from []byte, data string) []byte {
	b := append([]byte{0xc0, 0, 0, 0, 1, byte(len(to))}, to...)
	b = append(append(b, byte(len(from))), from...)
	return append(b, data...)
}

// shortQUIC is a packet with a short header.
func shortQUIC(to []byte, data string) []byte { return append(append([]byte{0x40}, to...), data...) }

// quicPacket answers a packet: the first one with the server's connection ID, each later one with how many lines of the connection
// have come, wherever from.
func (s *farmServer) quicPacket(b []byte) []byte {
	to, from, data, err := readQUIC(b, quicIDLength)
	c := s.quic[string(to)]
	switch {
	case err != nil:
		return fmt.Append(nil, err)
	case from != nil:
		if c == nil {
			c = &quicConnection{id: append([]byte{quicConfig<<5 | quicIDLength - 1}, quicServer(s.number)...), client: from}
			c.id = append(c.id, rand.Text()[:quicIDLength-len(c.id)]...)
			s.quic[string(to)], s.quic[string(c.id)] = c, c
		}
		return longQUIC(from, c.id, fmt.Sprintf("%d %s", s.number, data))
	case c == nil:
		return fmt.Appendf(nil, "server %d has no connection %x", s.number, to)
	}
	var n int
	if _, err := fmt.Sscan(string(data), &n); err == nil && n == c.received+1 {
		c.received++
	}
	return shortQUIC(c.client, fmt.Sprintf("%d %d %s", s.number, c.received, data))
}
