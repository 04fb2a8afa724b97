// SPDX-License-Identifier: Apache-2.0

// TCP from the left host to the right one: a stream by iperf3, and requests that are answered one at a time.

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// Stream returns the throughput of a single iperf3 stream over a number of seconds, in Gbit/s.
func (w *Wire) Stream(ctx context.Context, seconds int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+20)*time.Second)
	defer cancel()
	server := inside(ctx, w.Right, "iperf3", "-s", "-1", "-B", w.Right.Addr.Addr().String())
	if err := server.Start(); err != nil {
		return 0, fmt.Errorf("iperf3, server: %w", err)
	}
	defer func() {
		cancel()
		_ = server.Wait() // it ended with the client, or was killed
	}()
	for {
		gbits, err := streamOnce(ctx, w, seconds)
		if err == nil {
			return gbits, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("iperf3: %w", err)
		}
		time.Sleep(10 * time.Millisecond) // the server is about to listen
	}
}

func streamOnce(ctx context.Context, w *Wire, seconds int) (float64, error) {
	out, err := inside(ctx, w.Left, "iperf3", "-c", w.Right.Addr.Addr().String(), "-t", strconv.Itoa(seconds), "-J").Output()
	if err != nil {
		return 0, fmt.Errorf("client: %w\n%.2000s", err, out)
	}
	var result struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				BPS float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return 0, fmt.Errorf("client: %w", err)
	}
	if result.Error != "" {
		return 0, fmt.Errorf("client: %s", result.Error) //nolint:err113 // it is another program's sentence
	}
	return result.End.Received.BPS / 1e9, nil
}

func inside(ctx context.Context, host *netns.Node, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + host.Path(), "--", name}, args...)...)
}

const requestPort = 9

// Requests sends n requests of one byte over one connection, each after the answer to the last, and returns the times
// in µs. The two ends are on CPUs 0 and 1 if there are two.
func (w *Wire) Requests(ctx context.Context, n int) ([]float64, error) {
	to := netip.AddrPortFrom(w.Right.Addr.Addr(), requestPort)
	server, err := tcpSocket(w.Right)
	if err != nil {
		return nil, err
	}
	defer unix.Close(server)
	address := &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	if err := errors.Join(unix.Bind(server, address), unix.Listen(server, 1)); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", to, err)
	}
	client, err := tcpSocket(w.Left)
	if err != nil {
		return nil, err
	}
	var answerErr error
	var wg sync.WaitGroup
	wg.Go(func() { answerErr = netns.OnCPU(lastCPU(), func() error { return answer(ctx, server) }) })
	var times []float64
	err = netns.OnCPU(0, func() error {
		defer unix.Close(client)
		if err := unix.Connect(client, address); err != nil {
			return fmt.Errorf("connecting to %s: %w", to, err)
		}
		times, err = ask(ctx, client, n)
		return err
	})
	wg.Wait()
	return times, errors.Join(err, answerErr)
}

// tcpSocket opens a blocking socket of a host with a timeout.
func tcpSocket(host *netns.Node) (fd int, err error) {
	err = host.Do(func() error {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		limit := unix.NsecToTimeval(int64(5 * time.Second))
		return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	})
	if err != nil {
		return -1, fmt.Errorf("socket of host %s: %w", host.Outer, err)
	}
	return fd, nil
}

// answer sends received bytes of the first connection back until it ends.
func answer(ctx context.Context, server int) error {
	conn, _, err := unix.Accept(server)
	if err != nil {
		return fmt.Errorf("accepting: %w", err)
	}
	defer unix.Close(conn)
	for buf := make([]byte, 1); ctx.Err() == nil; {
		n, err := unix.Read(conn, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			return nil
		}
		if err == nil {
			_, err = unix.Write(conn, buf)
		}
		if err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return ctx.Err()
}

func ask(ctx context.Context, conn, n int) ([]float64, error) {
	out, buf := make([]float64, 0, n), make([]byte, 1)
	for len(out) < n && ctx.Err() == nil {
		start := time.Now()
		if _, err := unix.Write(conn, buf); err != nil {
			return nil, fmt.Errorf("asking: %w", err)
		}
		for {
			got, err := unix.Read(conn, buf)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || got == 0 {
				return nil, fmt.Errorf("waiting for an answer: %d bytes: %w", got, err)
			}
			break
		}
		out = append(out, float64(time.Since(start).Nanoseconds())/1000)
	}
	return out, ctx.Err()
}
