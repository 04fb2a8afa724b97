// SPDX-License-Identifier: Apache-2.0

// Connections of a client to the servers of a farm, with a protocol each.

package e2e

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/net/websocket"
)

// asker is a connection with any protocol.
type asker interface {
	// ask sends a line and returns the answer: the number of the server, and the line.
	ask(line string) (string, error)
	io.Closer
}

// protocol is a protocol of connections, with the family of their addresses: 0 is IPv4, 1 IPv6.
type protocol struct {
	name   string
	family int
	open   func(f *farm, family int) (asker, error)
}

// farmProtocols are the protocols of farmServer; more of those that are used more.
var farmProtocols = []protocol{
	{"TCP", 0, openLines}, {"TCP", 1, openLines}, {"WebSocket", 0, openWebSocket}, {"UDP", 0, openDatagrams}, {"QUIC", 0, openQUIC},
	{"TCP", 0, openLines}, {"TCP", 1, openLines}, {"WebSocket", 1, openWebSocket}, {"UDP", 1, openDatagrams}, {"QUIC", 1, openQUIC},
	{"TCP", 0, openLines}, {"TCP", 1, openLines}, {"WebSocket", 0, openWebSocket}, {"TCP", 0, openLines}, {"TCP", 0, openLines},
}

// conversation is a connection to a server.
type conversation struct {
	asker
	protocol
	server int
	broken bool
}

// say sends a line, and checks the answer: from the server of the connection, with that line.
func (c *conversation) say(line string) error {
	said, err := c.ask(line)
	if err != nil {
		return err
	}
	if c.server == 0 {
		if _, err := fmt.Sscan(said, &c.server); err != nil {
			return err
		}
	}
	if want := fmt.Sprintf("%d %s", c.server, line); said != want {
		return fmt.Errorf("it said %q, want %q", said, want)
	}
	return nil
}

// lineConn is a connection of TCP.
type lineConn struct {
	net.Conn
	in *bufio.Reader
}

func openLines(f *farm, family int) (asker, error) {
	c, err := f.dial("tcp", family, 80, "", 0)
	if err != nil {
		return nil, err
	}
	return &lineConn{c, bufio.NewReader(c)}, nil
}

// SetLinger is that of the connection.
func (c *lineConn) SetLinger(seconds int) error { return setLinger(c.Conn, seconds) }

func setLinger(c net.Conn, seconds int) error {
	if tcp, ok := c.(*net.TCPConn); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}

func (c *lineConn) ask(line string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	said, err := c.in.ReadString('\n')
	return strings.TrimSuffix(said, "\n"), err
}

// webSocket is one, over which the server sends messages by itself as well.
type webSocket struct {
	*websocket.Conn
	tcp    net.Conn
	pushed int
}

// pushed is what they begin with, behind the number of the server.
const pushed = "pushed "

func openWebSocket(f *farm, family int) (asker, error) {
	conf, err := websocket.NewConfig("ws://farm/", "http://farm/")
	if err != nil {
		return nil, err
	}
	c, err := f.dial("tcp", family, 81, "", 0)
	if err != nil {
		return nil, err
	}
	err = c.SetDeadline(time.Now().Add(patience))
	ws, handshake := websocket.NewClient(conf, c)
	if err := errors.Join(err, handshake); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &webSocket{Conn: ws, tcp: c}, nil
}

// SetLinger is that of the connection.
func (c *webSocket) SetLinger(seconds int) error { return setLinger(c.tcp, seconds) }

func (c *webSocket) ask(line string) (said string, err error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if err := websocket.Message.Send(c.Conn, line); err != nil {
		return "", err
	}
	for {
		if err := websocket.Message.Receive(c.Conn, &said); err != nil {
			return "", err
		}
		_, text, _ := strings.Cut(said, " ")
		number, is := strings.CutPrefix(text, pushed)
		if !is {
			return said, nil
		}
		if c.pushed++; number != fmt.Sprint(c.pushed) {
			return "", fmt.Errorf("the server sent %q by itself, want the number %d", said, c.pushed)
		}
	}
}

// again is when a datagram is sent again: one may be lost.
var again = patience / 20

// exchange sends a datagram until there is an answer that is wanted.
func exchange(c net.Conn, data []byte, wanted func(answer []byte) bool) ([]byte, error) {
	b := make([]byte, 2048)
	for limit := time.Now().Add(patience); ; {
		if _, err := c.Write(data); err != nil {
			return nil, err
		}
		if err := c.SetReadDeadline(time.Now().Add(again)); err != nil {
			return nil, err
		}
		for {
			n, err := c.Read(b)
			if errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(limit) {
				break
			}
			if err != nil {
				return nil, err
			}
			if wanted(b[:n]) {
				return b[:n], nil
			}
		}
	}
}

// datagrams are those of a socket of UDP.
type datagrams struct {
	net.Conn
	number int
}

func openDatagrams(f *farm, family int) (asker, error) {
	c, err := f.dial("udp", family, 53, "", 0)
	return &datagrams{Conn: c}, err
}

func (c *datagrams) ask(line string) (string, error) {
	c.number++
	mark := fmt.Sprintf(" %d ", c.number)
	answer, err := exchange(c.Conn, []byte(mark+line), func(answer []byte) bool { return strings.Contains(string(answer), mark) })
	return strings.Replace(string(answer), " "+mark, " ", 1), err
}

// quic is a connection with IDs like those of QUIC. Behind lbdsr its client moves.
type quic struct {
	net.Conn
	farm            *farm
	family          int
	number          int
	client, servers []byte // the connection IDs of both sides
}

// quicHomes are the addresses that a client moves between.
var quicHomes = [2][2]string{{"10.0.0.2", "10.0.0.9"}, {"2001:db8::2", "2001:db8::9"}}

func openQUIC(f *farm, family int) (asker, error) {
	c := &quic{farm: f, family: family, client: []byte(rand.Text()[:8])}
	return c, c.move(0)
}

// quicPorts are below those that the kernel chooses.
const firstQUICPort, quicPorts = 2000, 30_000

// port returns a local port that no connection of QUIC has had: one that was closed would be the same flow, with the same server.
func (f *farm) port() int { return firstQUICPort + int(f.ports.Add(1)%quicPorts) }

// move continues from another port of an address.
func (c *quic) move(home int) (err error) {
	if c.Conn != nil {
		err = c.Close()
	}
	next, dial := c.farm.dial("udp", c.family, quicPort, quicHomes[c.family][home], c.farm.port())
	c.Conn = next
	return errors.Join(err, dial)
}

func (c *quic) ask(line string) (string, error) {
	if c.servers == nil {
		first := longQUIC([]byte(rand.Text()[:8]), c.client, line)
		answer, err := exchange(c.Conn, first, func([]byte) bool { return true })
		if err != nil {
			return "", err
		}
		_, from, data, err := readQUIC(answer, len(c.client))
		c.servers = from
		return string(data), err
	}
	c.number++
	if c.farm.service == "lbdsr" && c.number%4 == 0 {
		if err := c.move(c.number / 4 % 2); err != nil {
			return "", err
		}
	}
	mark := fmt.Sprintf("%d ", c.number)
	answer, err := exchange(c.Conn, shortQUIC(c.servers, mark+line), func(answer []byte) bool {
		late := answer[0]&0x80 != 0 // the first answer again
		return !late && (strings.Contains(string(answer), " "+mark+line) || !strings.HasPrefix(string(answer), "\x40"+string(c.client)))
	})
	if err != nil {
		return "", err
	}
	_, _, data, err := readQUIC(answer, len(c.client))
	if err != nil {
		return "", fmt.Errorf("%w: %q", err, answer)
	}
	// The server has received as many lines as were sent.
	return strings.Replace(string(data), " "+mark+mark, " ", 1), nil
}
