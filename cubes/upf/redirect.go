// SPDX-License-Identifier: Apache-2.0

package upf

// Redirects HTTP requests of devices, for example to a captive portal. The cube answers in place of every server and keeps no
// connection state: an answer depends only on the segment received, so no device can exhaust anything. Answers are subject to the
// rules for packets to the device.

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/wire"
)

// reasonHTTP is UPF_HTTP.
const reasonHTTP = reasonTunnelEnded + 1

// Packets to port 80 that user space accepts per second, from all devices: a request takes five or six.
const (
	httpPackets = 2000
	httpBurst   = 4000
)

// httpLimit is struct upf_http.
type httpLimit struct {
	Limit  bucket.Limit
	Bucket uint64
}

// redirector answers packets to port 80.
type redirector struct {
	env    cube.Env
	urls   *pdusession.URLs
	limits table.Table[uint32, httpLimit]
	// secret keys the initial sequence numbers of connections.
	secret [32]byte
	counts *messages
}

func newRedirector(env cube.Env, counts *messages) *redirector {
	r := &redirector{env: env, urls: pdusession.NewURLs(env), limits: table.New[uint32, httpLimit](env, "http"), counts: counts}
	_, _ = rand.Read(r.secret[:]) // it does not fail
	return r
}

// begin sets the rate limit, which admits packets.
func (r *redirector) begin() error {
	l, err := bucket.New(httpPackets, time.Second, httpBurst)
	if err != nil {
		return err
	}
	return r.limits.Set(0, httpLimit{Limit: l})
}

// take answers a packet.
func (r *redirector) take(p *cube.PacketIn) {
	url, ok := r.urls.Get(p.Metadata[0])
	ip, err := wire.ParseIP(p.Data)
	if !ok || err != nil || len(p.Data) < p.Length {
		r.counts.HTTPInvalid++
		return
	}
	is, ok := ip.Segment()
	if !ok {
		r.counts.HTTPInvalid++
		return
	}
	answer, ok := r.answer(&is, url)
	if !ok {
		return
	}
	out := cube.PacketOut{Direction: cube.Egress, Recirculate: true, Data: answer.Frame(wire.Source(p.Data), wire.Destination(p.Data)), Trip: p.Trip}
	if err := r.env.Send(&out); err != nil {
		r.env.Logger().Debug("redirect a request", "error", err)
	}
}

const (
	// window is how much a device may send before an acknowledgment, mss the longest segment: a packet of 1,280 bytes.
	window = 65535
	mss    = 1220
	// longestAnswer exceeds the length of an answer and its FIN.
	longestAnswer = 2048
)

// answer returns the segment that answers one; false if it needs no answer.
func (r *redirector) answer(is *wire.Segment, url string) (wire.Segment, bool) {
	first := r.first(is) + 1 // after the SYN
	length := uint32(len(is.Payload))
	if is.FIN {
		length++
	}
	to := wire.Segment{Src: is.Dst, Dst: is.Src, Window: window, Seq: is.Ack, Ack: is.Seq + length, ACK: true}
	switch {
	case is.RST:
		return to, false
	case is.SYN && !is.ACK:
		to.Seq, to.Ack, to.MSS, to.SYN = first-1, is.Seq+1, mss, true
		return to, true
	case !is.ACK || is.SYN || is.Ack-first > longestAnswer:
		r.counts.HTTPInvalid++
		to.Ack, to.ACK, to.RST = 0, false, true
		return to, is.ACK
	case length == 0:
		return to, false
	case is.Ack != first: // it has the answer
		return to, true
	case len(is.Payload) == 0: // it asks for nothing
		to.FIN = true
		return to, true
	}
	r.counts.HTTPRedirected++
	to.PSH, to.FIN = true, true
	to.Payload = []byte("HTTP/1.1 302 Found\r\nLocation: " + url + "\r\nContent-Length: 0\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n")
	return to, true
}

// first returns the initial sequence number of the cube's side of a connection, which only the two ends can know.
func (r *redirector) first(is *wire.Segment) uint32 {
	h := hmac.New(sha256.New, r.secret[:])
	for _, end := range []interface{ MarshalBinary() ([]byte, error) }{is.Src, is.Dst} {
		b, _ := end.MarshalBinary() // it does not fail
		h.Write(append(b, byte(len(b))))
	}
	return binary.BigEndian.Uint32(h.Sum(nil))
}
