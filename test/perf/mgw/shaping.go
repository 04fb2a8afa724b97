// SPDX-License-Identifier: Apache-2.0

package mgw

// One connection of TCP through a limit, compared with tbf.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const shapingText = "*TCP.* One connection between two hosts, through a `simpleforwarder` at TC and a limit of 20 Mbit/s: tbf where packets leave, with a queue of " +
	"100 packets or of one, or a policer where they come in, with action LIMIT, or SHAPE into a class of htb with the same rate and burst and a queue of 100 packets. " +
	"Acknowledgements are not limited. The sender has `gso_max_segs 1`, as a queue of one packet has no room for a superframe, nor has a small burst. What the " +
	"receiver reads in 3 s, after twice the burst or 1.5 s, is counted in frames of 1,514 bytes with 1,448 of data."

// The rate in bytes per second, and a frame with its data.
const (
	shapedRate   = 20_000_000 / 8
	shapedFrame  = 1514
	shapedData   = 1448
	shapedClient = "10.0.0.1"
	shapedServer = "10.0.0.2"
)

var burstShares = []struct {
	name string
	of   int // the burst is what the rate carries in a second, divided by this
}{{"1", 1}, {"1/10", 10}, {"1/100", 100}}

// The ways to limit TCP.
const (
	tbfLong  = "tbf, queue of 100"
	tbfShort = "tbf, queue of 1"
	limitTCP = "policer, LIMIT"
	shapeTCP = "policer, SHAPE"
)

// shaper is a way to limit TCP: what tc sets up where packets leave, and the contract.
type shaper struct {
	name     string
	queue    func(burst int) string
	contract func(burst int) object
}

func shapers() []shaper {
	tbf := func(packets int) func(int) string {
		return func(burst int) string {
			return fmt.Sprintf("qdisc add dev %s root tbf rate %dbit burst %d limit %d\n", lab.Out, 8*shapedRate, burst, packets*shapedFrame)
		}
	}
	htb := func(burst int) string {
		return fmt.Sprintf("qdisc add dev %[1]s root handle 1: htb r2q 100\nclass add dev %[1]s parent 1: classid 1:a htb rate %[2]dbit burst %[3]d cburst %[3]d\n"+
			"qdisc add dev %[1]s parent 1:a pfifo limit 100\n", lab.Out, 8*shapedRate, burst)
	}
	return []shaper{
		{tbfLong, tbf(100), nil}, {tbfShort, tbf(1), nil},
		{limitTCP, nil, func(burst int) object {
			return object{"action": "LIMIT", "rate-limit": 8 * shapedRate / 1000, "burst-limit": 8 * burst / 1000}
		}},
		{shapeTCP, htb, func(int) object { return object{"action": "SHAPE", "queue": "1:a"} }},
	}
}

// shaping measures TCP.
func shaping(ctx context.Context, b *Bench, out *Result) error {
	t := &report.Table{Title: "TCP at 20 Mbit/s, Mbit/s of frames", Columns: []string{"burst / rate"}}
	for _, s := range shapers() {
		t.Columns = append(t.Columns, s.name)
	}
	all := map[string]map[string]report.Sample{}
	for _, share := range burstShares {
		b.Progress("mgw-policers: TCP, burst / rate %s", share.name)
		var err error
		if all[share.name], err = shapeAll(ctx, b, shapedRate/share.of); err != nil {
			return fmt.Errorf("TCP, burst / rate %s: %w", share.name, err)
		}
		cells := []string{share.name}
		for _, s := range shapers() {
			cells = append(cells, all[share.name][s.name].Spread(1))
		}
		t.Add(cells...)
	}
	out.Tables = append(out.Tables, t)
	out.Checks = append(out.Checks,
		report.AtLeast("policer, TCP with SHAPE, burst / rate 1/10, of the rate", "%.2f", all["1/10"][shapeTCP].Median()*1e6/8/shapedRate, 0.95),
		report.AtLeast("policer, TCP with LIMIT, burst / rate 1, against tbf", "%.2f ×", all["1"][limitTCP].Median()/all["1"][tbfLong].Median(), 0.97))
	return nil
}

// shapeAll measures all ways at the same time: at their rate, two CPUs are idle most of the time.
func shapeAll(ctx context.Context, b *Bench, burst int) (map[string]report.Sample, error) {
	samples := map[string]report.Sample{}
	err := lab.With(ctx, func(rig *lab.Rig) error {
		all := shapers()
		wires := make([]*lab.Filtered, len(all))
		for i, s := range all {
			var err error
			if wires[i], err = s.wire(rig, b, burst); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		length := 3 * time.Second
		if b.Quick {
			length = time.Second
		}
		for range b.Rounds(3, 1) {
			var running sync.WaitGroup
			rates, errs := make([]float64, len(all)), make([]error, len(all))
			for i := range all {
				running.Go(func() { rates[i], errs[i] = shaped(wires[i], burst, length) })
			}
			running.Wait()
			if err := errors.Join(errors.Join(errs...), rig.Context().Err()); err != nil {
				return err
			}
			for i, s := range all {
				samples[s.name] = append(samples[s.name], rates[i])
			}
		}
		return nil
	})
	return samples, err
}

// wire connects two hosts by a forwarder with a limit towards the right one.
func (s shaper) wire(rig *lab.Rig, b *Bench, burst int) (*lab.Filtered, error) {
	w := &lab.Filtered{Wire: &lab.Wire{Machine: netns.NewLab(rig)}}
	w.Left, w.Right = w.Machine.Host(lab.In, shapedClient+"/24"), w.Machine.Host(lab.Out, shapedServer+"/24")
	w.Left.Run("ip", "link", "set", netns.Inner, "gso_max_segs", "1")
	d, err := contest.DaemonAt(rig, b, w)
	if err != nil {
		return nil, err
	}
	p := &policed{&gateway{w, d}, s.name}
	err = p.forwarder()
	names := []string{"f"}
	if s.contract != nil {
		const limited = 1
		contract := s.contract(burst)
		contract["traffic-class"] = limited
		err = errors.Join(err, p.behind("classifier", "c", object{"traffic-class": []object{{"id": limited, "direction": "INGRESS", "ethtype": "IP"}}}),
			p.behind("policer", "p", object{"contract": []object{contract}}))
		names = append(names, "c", "p")
	}
	if s.queue != nil {
		err = errors.Join(err, contest.Fed(w.Machine.Command("tc", "-batch", "-"), s.queue(burst)))
	}
	return w, errors.Join(err, d.Inlined(names...))
}

// shaped is what a connection from the left host to the right one gets, in Mbit/s of frames.
func shaped(w *lab.Filtered, burst int, length time.Duration) (rate float64, err error) {
	var listener net.Listener
	var sender net.Conn
	err = w.Right.Do(func() (err error) {
		listener, err = net.Listen("tcp", shapedServer+":0")
		return err
	})
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	err = w.Left.Do(func() (err error) {
		sender, err = net.DialTimeout("tcp", listener.Addr().String(), 10*time.Second)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer sender.Close()
	receiver, err := listener.Accept()
	if err != nil {
		return 0, err
	}
	defer receiver.Close()
	go func() {
		for buf := make([]byte, 1<<16); ; {
			if _, err := sender.Write(buf); err != nil {
				return // it is closed
			}
		}
	}()
	if _, err := readFor(receiver, 1500*time.Millisecond, 2*burst); err != nil {
		return 0, err
	}
	begin := time.Now()
	n, err := readFor(receiver, length, 1<<40)
	return float64(n) / shapedData * shapedFrame * 8 / time.Since(begin).Seconds() / 1e6, err
}

// readFor reads for a while, or until it has a number of bytes, and returns how many there were.
func readFor(c net.Conn, length time.Duration, most int) (n int, err error) {
	if err := c.SetReadDeadline(time.Now().Add(length)); err != nil {
		return 0, err
	}
	for buf := make([]byte, 1<<16); n < most; {
		got, err := c.Read(buf)
		n += got
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
