// SPDX-License-Identifier: Apache-2.0

// Traffic that detects losses: numbered frames between two hosts, throughout a change.

package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

const (
	// streamType is the EtherType that IEEE left for local experiments.
	streamType = 0x88b5
	// streamPayload is the number of bytes after the headers of a frame.
	streamPayload = 50
	// perTick frames are sent every tick.
	perTick = 4
)

// tick gives 4,000 frames per second, and fewer on a slow machine: they must not fill the queues of netdevs.
var tick = pace.Stretch(time.Millisecond)

// stream is a stream of numbered frames from one host to another.
type stream struct {
	t        testing.TB
	from, to *netns.Raw
	frame    []byte
	at       int // where the number of the stream and that of the frame begin
	sent     atomic.Uint64
	stop     chan struct{} // ends the sender
	over     chan struct{} // ends the receiver, when nothing is waited for any more
	done     sync.WaitGroup

	mu       sync.Mutex
	seen     []uint8 // by number: how often it arrived
	arrived  uint64
	problems []error
}

// streams counts streams, to distinguish two of them between the same hosts.
var streams atomic.Uint32

// startStream sends frames between two hosts until Stop. The bridges on the path learn both addresses first.
func startStream(t testing.TB, from, to *netns.Node) *stream {
	t.Helper()
	return startStreamOf(t, from, to, pkt.EthernetFrame(to.MAC, from.MAC, streamType, nil))
}

// startStreamOf sends frames that begin with these headers.
func startStreamOf(t testing.TB, from, to *netns.Node, headers []byte) *stream {
	t.Helper()
	s := &stream{t: t, from: netns.OpenRaw(t, from, netns.Inner), to: netns.OpenRaw(t, to, netns.Inner), stop: make(chan struct{}),
		over: make(chan struct{}), frame: append(slices.Clip(headers), make([]byte, streamPayload)...), at: len(headers)}
	id := streams.Add(1)
	binary.BigEndian.PutUint32(s.frame[s.at:], id)
	back := pkt.EthernetFrame(from.MAC, to.MAC, streamType, make([]byte, streamPayload))
	netns.Eventually(t, patience, func() error { // the first frames after a program was attached may be lost in the device
		if err := s.to.Send(back); err != nil {
			return err
		}
		_, err := s.from.Recv(isStream, time.Second)
		return err
	})
	s.done.Go(s.send)
	received := make(chan struct{})
	go func() { defer close(received); s.receive(id) }()
	t.Cleanup(func() { s.end(); close(s.over); <-received })
	return s
}

func isStream(f []byte) bool { return len(f) >= 26 && binary.BigEndian.Uint16(f[12:]) == streamType }

// end stops the sender; it may be called twice.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
}

func (s *stream) problem(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, err)
}

func (s *stream) send() {
	due := time.NewTicker(tick)
	defer due.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-due.C:
		}
		for range perTick {
			binary.BigEndian.PutUint64(s.frame[s.at+4:], s.sent.Load())
			if err := s.from.Send(s.frame); err != nil {
				s.problem(err)
				return
			}
			s.sent.Add(1)
		}
	}
}

// receive continues until the test is over: on a busy machine the last frames may take some time.
func (s *stream) receive(id uint32) {
	mine := func(f []byte) bool {
		return len(f) >= s.at+12 && bytes.Equal(f[12:s.at], s.frame[12:s.at]) && binary.BigEndian.Uint32(f[s.at:]) == id
	}
	for {
		f, err := s.to.Recv(mine, 100*time.Millisecond)
		switch {
		case err == nil:
			s.count(binary.BigEndian.Uint64(f[s.at+4:]))
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			s.problem(err)
			return
		}
		select {
		case <-s.over:
			return
		default:
		}
	}
}

func (s *stream) count(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uint64(len(s.seen)) <= number {
		s.seen = append(s.seen, 0)
	}
	s.seen[number]++
	s.arrived++
}

// Arrived is the number of frames that have arrived so far.
func (s *stream) Arrived() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived
}

// Flowing waits until that many more frames have arrived: the previous change is then in use.
func (s *stream) Flowing(more uint64) {
	s.t.Helper()
	goal := s.Arrived() + more
	netns.Eventually(s.t, patience, func() error {
		if s.Arrived() < goal {
			return errors.New("the stream stands still")
		}
		return nil
	})
}

// Stop ends the stream; every frame must have arrived once. It returns how many were sent.
func (s *stream) Stop() uint64 {
	s.t.Helper()
	s.end()
	s.done.Wait()
	sent := s.sent.Load()
	// The frames in flight are in queues of this machine only.
	for deadline := time.Now().Add(patience); s.Arrived() < sent && time.Now().Before(deadline); {
		<-time.After(10 * time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.problems {
		s.t.Errorf("stream: %v", err)
	}
	lost, twice, first := uint64(0), 0, uint64(0)
	for n := range sent {
		switch {
		case n >= uint64(len(s.seen)) || s.seen[n] == 0:
			if lost++; lost == 1 {
				first = n
			}
		case s.seen[n] > 1:
			twice++
		}
	}
	if lost > 0 || twice > 0 || sent == 0 {
		s.t.Errorf("stream: %d frames sent, %d lost (the first is number %d), %d arrived more than once", sent, lost, first, twice)
	}
	return sent
}
