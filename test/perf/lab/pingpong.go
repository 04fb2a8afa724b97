// SPDX-License-Identifier: Apache-2.0

// Latency: one small UDP datagram at a time, there and back, with or without other traffic on the same path. Blocking
// system calls on separate threads, because the runtime's poller would dominate the measurement.

package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

const pingPort = 7

// PingPong sends n datagrams one by one from the left host to the right one and back, and returns the round-trip times
// in µs. The two ends are on CPUs 0 and 1 if there are two.
func (w *Wire) PingPong(ctx context.Context, n int) ([]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := udpSocket(w.Right, pingPort)
	if err != nil {
		return nil, err
	}
	defer unix.Close(server)
	client, err := udpSocket(w.Left, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(client)
	var echoErr error
	var wg sync.WaitGroup
	wg.Go(func() { echoErr = netns.OnCPU(lastCPU(), func() error { return echo(ctx, server) }) })
	var times []float64
	err = netns.OnCPU(0, func() (err error) {
		times, err = ping(client, w.Right.Addr.Addr().As4(), n)
		return err
	})
	cancel()
	wg.Wait()
	return times, errors.Join(err, echoErr)
}

// udpSocket opens a blocking socket with a timeout, so that its user can check whether to end.
func udpSocket(host *netns.Node, port int) (fd int, err error) {
	err = host.Do(func() error {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		limit := unix.NsecToTimeval(int64(100 * time.Millisecond))
		return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
			unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: host.Addr.Addr().As4()}))
	})
	if err != nil {
		return -1, fmt.Errorf("socket of host %s: %w", host.Outer, err)
	}
	return fd, nil
}

// echo sends received datagrams back until the context ends.
func echo(ctx context.Context, fd int) error {
	buf := make([]byte, 64)
	for ctx.Err() == nil {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil {
			err = unix.Sendto(fd, buf[:n], 0, from)
		}
		if err != nil {
			return fmt.Errorf("echoing: %w", err)
		}
	}
	return nil
}

// ping returns the round-trip times of n answered datagrams, after a few to warm up.
func ping(fd int, to [4]byte, n int) ([]float64, error) {
	const warmUp, mayLose = 50, 20
	addr := &unix.SockaddrInet4{Port: pingPort, Addr: to}
	out, data := make([]float64, 0, n), make([]byte, 18)
	lost := 0
	for i := uint64(0); len(out) < n; i++ {
		binary.LittleEndian.PutUint64(data, i)
		start := time.Now()
		if err := unix.Sendto(fd, data, 0, addr); err != nil {
			return nil, fmt.Errorf("sending a datagram: %w", err)
		}
		answered, err := await(fd, i)
		took := time.Since(start)
		if err != nil {
			return nil, fmt.Errorf("waiting for an answer: %w", err)
		}
		if !answered {
			if lost++; lost > mayLose {
				return nil, fmt.Errorf("%d of %d datagrams without an answer: %w", lost, i+1, os.ErrDeadlineExceeded)
			}
			continue
		}
		if i >= warmUp {
			out = append(out, float64(took.Nanoseconds())/1000)
		}
	}
	return out, nil
}

// await receives the answer to datagram i, ignoring late answers to others; false if it does not arrive.
func await(fd int, i uint64) (bool, error) {
	answer := make([]byte, 64)
	for {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case err != nil:
			return false, err
		case n >= 8 && binary.LittleEndian.Uint64(answer) == i:
			return true, nil
		}
	}
}

// Load sends frames between stations at a rate from a host until the context ends, spread evenly;
// it returns how many it sent.
func Load(ctx context.Context, from *netns.Node, perSecond, flows int) (int, error) {
	const every = 100 * time.Microsecond
	fd, err := packetSocket(from)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	frame, sent := Template(FrameSize), 0
	err = netns.OnCPU(0, func() error {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("timer slack: %w", err)
		}
		for start := time.Now(); ctx.Err() == nil; {
			due := int(time.Since(start).Seconds() * float64(perSecond))
			for ; sent < due; sent++ {
				Station(frame, sent%flows)
				binary.LittleEndian.PutUint64(frame[stampAt:], uint64(monotonic()))
				if err := unix.Send(fd, frame, 0); err != nil && !errors.Is(err, unix.ENOBUFS) {
					return fmt.Errorf("sending a frame: %w", err)
				}
			}
			pause := unix.NsecToTimespec(int64(every))
			if err := unix.Nanosleep(&pause, nil); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("pausing: %w", err)
			}
		}
		return nil
	})
	return sent, err
}

func packetSocket(host *netns.Node) (fd int, err error) {
	err = host.Do(func() error {
		dev, err := net.InterfaceByName(netns.Inner)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1),
			unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: dev.Index}))
	})
	if err != nil {
		return -1, fmt.Errorf("packet socket of host %s: %w", host.Outer, err)
	}
	return fd, nil
}

// stampAt is the offset of the send time in a frame of Load: after its Ethernet header.
const stampAt = 14

// monotonic is the time in ns of a clock that all threads share.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the clock is always there
	}
	return ts.Nano()
}

// Since returns the time since a frame of Load was sent.
func Since(frame []byte) time.Duration {
	if len(frame) < stampAt+8 {
		return 0
	}
	return time.Duration(monotonic() - int64(binary.LittleEndian.Uint64(frame[stampAt:])))
}

// Station writes the addresses of flow i from left to right, as bpf/frame.h does.
func Station(frame []byte, i int) {
	copy(frame, []byte{0x02, 0xb0, byte(FromRight), 0, byte(i >> 8), byte(i), 0x02, 0xb0, byte(FromLeft), 0, byte(i >> 8), byte(i)})
}
