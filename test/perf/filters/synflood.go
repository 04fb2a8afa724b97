// SPDX-License-Identifier: Apache-2.0

package filters

// Connections of a client on one CPU while the other one floods the server with SYNs.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const synText = "A client behind a veth opens connections to a server and closes them by a reset, one after the other, both ends on " +
	"CPU 1. CPU 0 floods the same port of the server through the same veth with SYNs from random sources of a network of " +
	"4 million addresses. In the control, a bare XDP program drops that network; `synflood` answers its SYNs with cookies, and " +
	"those of the client, too. Without protection, `tcp_syncookies` is 0. For all alike, veths have a queue for each CPU, transmit checksum offload is off and " +
	"`gso_max_segs` is 1, without which XDP on a veth cannot see TCP. The rate is per second of CPU time of CPU 1's thread, and " +
	"of what it waited for connections that were not opened within 400 ms: what else runs on the machine does not count."

// defence is what the server has against the flood.
type defence struct {
	name  string
	setup func(*lab.Rig, *Bench, *lab.Filtered) (*lab.Daemon, error)
	// counter is that of the cube which must increase with the flood.
	daemon  *lab.Daemon
	wire    *lab.Filtered
	server  int
	rate    report.Sample
	flood   report.Sample
	failed  int
	opened  int
	counted uint64
}

const (
	control     = "a bare XDP program drops the flood"
	unprotected = "no protection"
	kernelOnly  = "the kernel's SYN cookies"
	synXDP      = "synflood, XDP"
	synTCX      = "synflood, tcx"
	serverIP    = "192.0.2.1"
	clientIP    = "192.0.2.2"
	serverPort  = 7000
)

// cookies are the kernel's SYN cookies: 0 is none, 1 when the backlog is full, 2 always.
func kernelCookies(value int) func(*lab.Rig, *Bench, *lab.Filtered) (*lab.Daemon, error) {
	return func(_ *lab.Rig, _ *Bench, w *lab.Filtered) (*lab.Daemon, error) {
		return nil, contest.Sysctl(w, map[string]int{"ipv4/tcp_syncookies": value})
	}
}

func protector(typ cube.Type) func(*lab.Rig, *Bench, *lab.Filtered) (*lab.Daemon, error) {
	return func(rig *lab.Rig, b *Bench, w *lab.Filtered) (*lab.Daemon, error) {
		if err := contest.Sysctl(w, map[string]int{"ipv4/tcp_syncookies": 2, "ipv4/tcp_timestamps": 2}); err != nil {
			return nil, err
		}
		return attached(rig, b, w, "synflood", map[string]any{
			"type": typ, "protection": "ON", "protected-ports": []map[string]any{{"port": serverPort}},
		})
	}
}

func defences() []*defence {
	return []*defence{
		{name: control, setup: func(rig *lab.Rig, _ *Bench, w *lab.Filtered) (*lab.Daemon, error) {
			return nil, w.DiscardFrom(rig, netip.MustParsePrefix(lab.Clients))
		}},
		{name: synXDP, setup: protector(cube.TypeXDPDRV)},
		{name: synTCX, setup: protector(cube.TypeTC)},
		{name: kernelOnly, setup: kernelCookies(2)},
		{name: unprotected, setup: kernelCookies(0)},
	}
}

// start sets up the hosts and the server.
func (d *defence) start(rig *lab.Rig, b *Bench) (err error) {
	if d.wire, err = rig.NewFiltered(netns.WithoutTxChecksum()); err != nil {
		return err
	}
	if err := d.wire.Route(); err != nil {
		return err
	}
	left := d.wire.Left
	left.Run("ip", "addr", "add", clientIP+"/24", "dev", netns.Inner)
	left.Run("ip", "neigh", "add", serverIP, "lladdr", left.OuterMAC.String(), "dev", netns.Inner, "nud", "permanent")
	left.Run("ip", "link", "set", netns.Inner, "gso_max_segs", "1")
	d.wire.Machine.Run("ip", "link", "set", lab.In, "gso_max_segs", "1")
	queuePerCPU(left.Namespace, netns.Inner)
	queuePerCPU(d.wire.Machine.Namespace, lab.In)
	if d.daemon, err = d.setup(rig, b, d.wire); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	err = d.wire.Machine.Do(func() error {
		d.server, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		rig.Cleanup(func() { _ = unix.Close(d.server) })
		limit := unix.NsecToTimeval(int64(attempt))
		return errors.Join(unix.SetsockoptTimeval(d.server, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
			unix.Bind(d.server, &unix.SockaddrInet4{Port: serverPort}), unix.Listen(d.server, 1024))
	})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// queuePerCPU gives a veth two queues, as a network card has: what one CPU sends is not handled by the other one.
func queuePerCPU(ns *netns.Namespace, dev string) {
	ns.Run("ethtool", "-L", dev, "rx", "2", "tx", "2")
	// sysfs shows the netdevs of the namespace in which it is mounted.
	ns.Run("unshare", "-m", "sh", "-ec", fmt.Sprintf(
		"mount -t sysfs none /sys; for q in 0 1; do echo $((1 << q)) >/sys/class/net/%s/queues/tx-$q/xps_cpus; done", dev))
}

// attempt is how long a connection may take.
const attempt = 400 * time.Millisecond

// open opens a connection and closes it.
func (d *defence) open() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	limit := unix.NsecToTimeval(int64(attempt))
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: serverPort, Addr: netip.MustParseAddr(serverIP).As4()}); err != nil {
		return err
	}
	in, _, err := unix.Accept(d.server)
	if err != nil {
		return err
	}
	return unix.Close(in)
}

// clients opens connections for a while on CPU 1, and returns the rate.
func (d *defence) clients(length time.Duration) (perSecond float64, err error) {
	var waited time.Duration
	n := 0
	spent, err := lab.CPUTime(1, func() error {
		return d.wire.Left.Do(func() error {
			for begin := time.Now(); time.Since(begin) < length; {
				one := time.Now()
				err := netns.Uninterrupted(d.open)
				switch {
				case err == nil:
					n++
				case errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ECONNRESET):
					d.failed++
					waited += time.Since(one)
				default:
					return fmt.Errorf("opening a connection: %w", err)
				}
			}
			return nil
		})
	})
	d.opened += n
	return float64(n) / (time.Duration(spent) + waited).Seconds(), err
}

// flooded measures the rate during a flood, and how fast the flood was.
func (d *defence) flooded(ctx context.Context, length time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	attackers := clients(1<<24, true)
	attackers.Server = netip.AddrPortFrom(netip.MustParseAddr(serverIP), serverPort)
	stream, err := d.wire.Segments(attackers, segSYN)
	if err != nil {
		return err
	}
	began := make(chan struct{})
	var wg sync.WaitGroup
	var sent uint64
	var took time.Duration
	var floodErr error
	wg.Go(func() {
		begin := time.Now()
		for i := 0; ctx.Err() == nil && floodErr == nil; i++ {
			var p lab.Passage
			p, floodErr = stream.Flood(1 << 15)
			if sent += p.Sent; i == 0 {
				close(began)
			}
		}
		took = time.Since(begin)
	})
	<-began
	rate, err := d.clients(length)
	stop()
	wg.Wait()
	d.rate, d.flood = append(d.rate, rate), append(d.flood, float64(sent)/took.Seconds()/1e6)
	return errors.Join(err, floodErr)
}

// answered is how many cookies ours has sent.
func (d *defence) answered() (uint64, error) {
	_, body, _, err := d.daemon.Client().Do("GET", "/synflood/c1/counters", "")
	if err != nil {
		return 0, err
	}
	var counters struct {
		Sent json.Number `json:"cookies-sent"`
	}
	if err := json.Unmarshal(body, &counters); err != nil {
		return 0, fmt.Errorf("counters: %w", err)
	}
	n, err := counters.Sent.Int64()
	return uint64(n), err
}

// synflood is the part "filter-synflood".
func synflood(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Filters: a flood of SYNs", Text: synText}
	all := defences()
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, d := range all {
			if err := d.start(rig, b); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
			if rate, err := d.clients(100 * time.Millisecond); err != nil || rate == 0 {
				return fmt.Errorf("%s: without a flood: %v connections/s: %w", d.name, rate, errors.Join(err, contest.ErrLost))
			}
			d.opened, d.failed = 0, 0
		}
		for range b.Rounds(11, 3) {
			for _, d := range contest.Shuffled(all) {
				if err := d.flooded(rig.Context(), 500*time.Millisecond); err != nil {
					return fmt.Errorf("%s: %w", d.name, err)
				}
			}
		}
		for _, d := range all {
			if d.daemon == nil {
				continue
			}
			n, err := d.answered()
			if err != nil || n < 1<<16 {
				return fmt.Errorf("%s: %d cookies: %w", d.name, n, errors.Join(err, contest.ErrLost))
			}
			d.counted = n
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	defended(out, all)
	return out, nil
}

func defended(out *Result, all []*defence) {
	t := &report.Table{Title: "Connections during a flood", Columns: []string{"", "opened per s", "of control", "not opened", "Mpps of the flood", "cookies"}}
	base := all[0].rate.Median()
	shares := map[string]float64{}
	for _, d := range all {
		shares[d.name] = 100 * d.rate.Median() / base
		cookies := ""
		if d.daemon != nil {
			cookies = contest.Thousands(int(d.counted))
		}
		t.Add(d.name, d.rate.Spread(0), fmt.Sprintf("%.1f %%", shares[d.name]), fmt.Sprintf("%d of %d", d.failed, d.failed+d.opened), d.flood.Spread(2), cookies)
	}
	out.Tables = append(out.Tables, t)
	out.Checks = append(out.Checks,
		report.AtLeast("connections during a flood of SYNs, "+synXDP+", against a control where XDP drops it", "%.1f %%", shares[synXDP], 95),
		report.AtMost("connections during a flood of SYNs, without protection", "%.1f %%", shares[unprotected], 20),
	)
}
