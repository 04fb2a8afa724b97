// SPDX-License-Identifier: Apache-2.0

package perf

// TCP through user space: every packet of a connection goes up and down, superframes whole.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// superSize is the minimum size of a superframe: many segments of a frame's size.
const superSize = 60_000

// superframes sends a stream through the slow path and looks for frames of 64 KB in both directions.
func superframes(ctx context.Context, r *Run) (*report.Table, report.Check, error) {
	size := 256 << 20
	if r.Quick {
		size = 32 << 20
	}
	var up atomic.Int64
	var took time.Duration
	down := 0
	err := lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(stations)
		if err != nil {
			return err
		}
		p, n, err := slowPlane(rig, w, cube.TypeTC, "punt", nil)
		if err != nil {
			return err
		}
		rd, err := p.Read(rig.Context(), &counter{each: relay(p, n.ID, &up)})
		if err != nil {
			return err
		}
		type sighting struct {
			size int
			err  error
		}
		seen := make(chan sighting, 1)
		raw := netns.OpenRaw(rig, w.Right, netns.Inner)
		go func() {
			frame, err := raw.Recv(func(f []byte) bool { return len(f) >= superSize }, 20*time.Second)
			seen <- sighting{len(frame), err}
		}()
		start := time.Now()
		err = stream(rig.Context(), w, size)
		took = time.Since(start)
		if err == nil {
			s := <-seen
			down, err = s.size, s.err
		}
		_, rerr := rd.Stop()
		return errors.Join(err, rerr)
	})
	check := report.Check{What: "slow path, a 64 KB TCP superframe survives the round trip", Promised: "yes"}
	check.Pass = err == nil && up.Load() >= superSize
	check.Measured = fmt.Sprintf("up %d bytes, down %d", up.Load(), down)
	if err != nil {
		if ctx.Err() != nil {
			return nil, check, err
		}
		check.Measured = err.Error()
	}
	t := &report.Table{Title: "TCP through user space", Columns: []string{"", "largest frame up", "down", "Gbit/s"}}
	t.Add(fmt.Sprintf("%d MB, TC", size>>20), fmt.Sprint(up.Load()), fmt.Sprint(down), fmt.Sprintf("%.1f", float64(size)*8/float64(took.Nanoseconds())))
	return t, check, nil
}

// relay sends packets received from one port down by the other, and records the largest superframe.
func relay(p *lab.Plane, id datapath.CubeID, largest *atomic.Int64) func(uint16, *cube.PacketIn) {
	return func(_ uint16, in *cube.PacketIn) {
		if in.Offload.GSOSize > 0 && int64(len(in.Data)) > largest.Load() {
			largest.Store(int64(len(in.Data)))
		}
		out := &cube.PacketOut{Port: 1 - in.Port, Direction: cube.Egress, TrafficClass: in.TrafficClass, Offload: in.Offload, Data: in.Data}
		// Packets that cannot be sent are lost, as on a wire; TCP retransmits.
		_ = p.Send(id, out)
	}
}

const streamPort = 5001

// stream sends bytes from the left host to the right one and checks that they are the same there.
func stream(ctx context.Context, w *lab.Wire, size int) error {
	addr := &net.TCPAddr{IP: w.Right.Addr.Addr().AsSlice(), Port: streamPort}
	var listener net.Listener
	err := w.Right.Do(func() (err error) {
		listener, err = net.ListenTCP("tcp4", addr)
		return err
	})
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	defer func() { _ = listener.Close() }()
	block := bytes.Repeat([]byte("polycube superframe "), 6554) // 128 KB
	got := make(chan error, 1)
	go func() { got <- receive(listener, block, size) }()
	var conn net.Conn
	err = w.Left.Do(func() (err error) {
		conn, err = net.DialTCP("tcp4", nil, addr)
		return err
	})
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _, _ = conn.Close(), listener.Close() })
	defer stop()
	for sent := 0; sent < size; {
		n, err := conn.Write(block[:min(len(block), size-sent)])
		if err != nil {
			return fmt.Errorf("sending: %w", err)
		}
		sent += n
	}
	return errors.Join(conn.Close(), <-got)
}

// receive reads size bytes that are the block again and again.
func receive(listener net.Listener, block []byte, size int) error {
	conn, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("accepting: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	buf := make([]byte, len(block))
	for have := 0; have < size; {
		n := min(len(block), size-have)
		if _, err := io.ReadFull(conn, buf[:n]); err != nil {
			return fmt.Errorf("receiving, after %d bytes: %w", have, err)
		}
		if !bytes.Equal(buf[:n], block[:n]) {
			return fmt.Errorf("bytes %d to %d are not what was sent: %w", have, have+n, cube.ErrInvalid)
		}
		have += n
	}
	return nil
}
