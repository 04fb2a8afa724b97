// SPDX-License-Identifier: Apache-2.0

package inspect

// Conversations as frames: the messages are written here, except those of TLS, which crypto/tls exchanges.

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
)

// talk is a flow: messages of client (c) and server (s) in turn, each prefixed by who sends it.
type talk struct {
	name     string
	protocol byte // of IP
	port     uint16
	messages []string
	// six: over IPv6. vlan: a tag. cut: the first message of TCP is in two segments, of UDP in two fragments, at this byte.
	six  bool
	vlan uint16
	cut  int
}

const (
	udp = 17
	tcp = 6
)

// frame is one, and which side has sent it.
type frame struct {
	fromServer bool
	bytes      []byte
}

// framer makes the frames of a talk.
type framer struct {
	talk
	client, server netip.Addr
	sport          uint16
	seq            [2]uint32
	id             uint16
	out            []frame
}

// framer makes frames; n distinguishes talks by the client's address and port.
func (t talk) framer(n int) *framer {
	f := &framer{talk: t, sport: uint16(40000 + n), seq: [2]uint32{1000, 5000}}
	f.client, f.server = netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), netip.AddrFrom4([4]byte{10, 9, 0, 9})
	if t.six {
		six := netip.MustParseAddr("2001:db8::1").As16()
		six[13], six[14] = byte(n>>8), byte(n)
		f.client, f.server = netip.AddrFrom16(six), netip.MustParseAddr("2001:db8::9")
	}
	return f
}

// frames are those of a talk.
func (t talk) frames(n int) []frame {
	f := t.framer(n)
	if t.protocol == tcp {
		f.segment(false, 2, nil)
		f.segment(true, 0x12, nil)
		f.segment(false, 0x10, nil)
	}
	for i, m := range t.messages {
		server, data := m[0] == 's', []byte(m[1:])
		switch {
		case t.protocol == tcp && i == 0 && t.cut > 0:
			f.segment(server, 0x10, data[:t.cut])
			f.segment(server, 0x18, data[t.cut:])
		case t.protocol == tcp:
			f.stream(server, data)
		case t.protocol == udp:
			f.datagram(server, data)
		default:
			f.packet(server, t.protocol, data, 0)
		}
	}
	if t.protocol == tcp {
		f.segment(false, 0x11, nil)
		f.segment(true, 0x11, nil)
		f.segment(false, 0x10, nil)
	}
	return f.out
}

// stream cuts data into segments.
func (f *framer) stream(server bool, data []byte) {
	for len(data) > 0 {
		n := min(len(data), 1400)
		f.segment(server, 0x18, data[:n])
		data = data[n:]
		f.segment(!server, 0x10, nil)
	}
}

func side(server bool) int {
	if server {
		return 1
	}
	return 0
}

func (f *framer) ports(server bool) []byte {
	e := binary.BigEndian
	if server {
		return e.AppendUint16(e.AppendUint16(nil, f.port), f.sport)
	}
	return e.AppendUint16(e.AppendUint16(nil, f.sport), f.port)
}

func (f *framer) segment(server bool, flags byte, data []byte) {
	e := binary.BigEndian
	h := e.AppendUint32(f.ports(server), f.seq[side(server)])
	ack := f.seq[side(!server)]
	if flags&0x10 == 0 {
		ack = 0
	}
	h = e.AppendUint32(h, ack)
	h = append(h, 5<<4, flags, 0xfa, 0xf0, 0, 0, 0, 0)
	f.seq[side(server)] += uint32(len(data))
	if flags&3 != 0 {
		f.seq[side(server)]++
	}
	f.packet(server, tcp, append(h, data...), 0)
}

func (f *framer) datagram(server bool, data []byte) {
	e := binary.BigEndian
	h := e.AppendUint16(f.ports(server), uint16(8+len(data)))
	h = append(append(h, 0, 0), data...)
	if f.cut > 0 && !server && len(h) > f.cut+8 {
		at := (f.cut + 8) &^ 7
		f.id++
		f.packet(server, udp, h[:at], 0x2000)
		f.id--
		f.packet(server, udp, h[at:], uint16(at/8))
		return
	}
	f.packet(server, udp, h, 0)
}

// packet adds an IP packet, with the flags and offset of a fragment.
func (f *framer) packet(server bool, protocol byte, data []byte, fragment uint16) {
	e := binary.BigEndian
	from, to := f.client, f.server
	if server {
		from, to = to, from
	}
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	if f.vlan != 0 {
		b = e.AppendUint16(append(b, 0x81, 0), f.vlan)
	}
	if f.six {
		b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0)
		b = append(e.AppendUint16(b, uint16(len(data))), protocol, 64)
	} else {
		f.id++
		b = append(b, 8, 0, 0x45, 0)
		b = e.AppendUint16(e.AppendUint16(b, uint16(20+len(data))), f.id)
		b = append(e.AppendUint16(b, fragment), 64, protocol, 0, 0)
	}
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	f.out = append(f.out, frame{server, append(b, data...)})
}

// writePcap writes frames, a millisecond apart.
func writePcap(t *testing.T, path string, frames []frame) {
	t.Helper()
	e := binary.LittleEndian
	b := []byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0}
	for i, f := range frames {
		b = e.AppendUint32(b, uint32(1_700_000_000+i/1000))
		b = e.AppendUint32(b, uint32(i%1000*1000))
		b = e.AppendUint32(e.AppendUint32(b, uint32(len(f.bytes))), uint32(len(f.bytes)))
		b = append(b, f.bytes...)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// recorder notes what is written, in order with the other side.
type recorder struct {
	net.Conn
	who string
	log *[]string
	mu  *sync.Mutex
}

func (r recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	*r.log = append(*r.log, r.who+string(b))
	r.mu.Unlock()
	return r.Conn.Write(b)
}

// handshake are the messages of TLS with a server of this name, and a request inside.
func handshake(t testing.TB, host string, version uint16) (messages []string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	a, b := net.Pipe()
	server := tls.Server(recorder{b, "s", &messages, &mu}, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MaxVersion: version})
	client := tls.Client(recorder{a, "c", &messages, &mu}, &tls.Config{ServerName: host, InsecureSkipVerify: true, MaxVersion: version})
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(server, make([]byte, 5))
		if err == nil {
			_, err = server.Write([]byte("world"))
		}
		done <- err
	}()
	_, err = client.Write([]byte("hello"))
	if err == nil {
		_, err = io.ReadFull(client, make([]byte, 5))
	}
	if serverErr := <-done; err != nil || serverErr != nil {
		t.Fatal(err, serverErr)
	}
	_, _ = a.Close(), b.Close()
	mu.Lock()
	defer mu.Unlock()
	return messages
}
