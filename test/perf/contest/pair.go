// SPDX-License-Identifier: Apache-2.0

package contest

// Programs that two CPUs run at the same time, on maps that they share.

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// PairText says how programs are run by two CPUs.
const PairText = "Each of two threads, bound to a CPU of its own, runs the program on packets of its own (`BPF_PROG_TEST_RUN` at TC, " +
	"5,000 runs a call, harness included), alone and while the other one does. At XDP, the kernel lets such runs wait for each other. " +
	"Packets are counted per second of CPU time of each thread, and added."

// pairCall is the number of packets of a call: few, so that both threads end at about the same time.
const pairCall = 5000

// Pair is a program that two CPUs run, each by a harness of its own.
type Pair struct {
	Name string
	// One and Both are the packets per second of CPU time, in millions, of one CPU alone and the sum of both at the same time.
	One, Both report.Sample

	harnesses [2]*Alone
}

// NewPair is a program in the place of a wire's netdev, with the packets of each CPU.
func NewPair(rig *lab.Rig, w *lab.Filtered, name string, program *ebpf.Program, packets [2][][]byte) (*Pair, error) {
	p := &Pair{Name: name}
	for i := range p.harnesses {
		var err error
		if p.harnesses[i], err = NewAlone(rig, w, name, cube.TC, program, packets[i]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Verdicts runs each packet of both CPUs once, and checks the verdict of each.
func (p *Pair) Verdicts(packets int, want func(verdict uint32) bool) error {
	return errors.Join(p.harnesses[0].Verdicts(packets, want), p.harnesses[1].Verdicts(packets, want))
}

// run runs the program on the first CPUs for a while, and returns the sum of their rates.
func (p *Pair) run(cpus int, length time.Duration) (sum float64, err error) {
	var all sync.WaitGroup
	rates, errs := make([]float64, cpus), make([]error, cpus)
	end := time.Now().Add(length)
	for cpu := range cpus {
		all.Go(func() {
			errs[cpu] = netns.OnCPU(cpu, func() error {
				return netns.Uninterrupted(func() (err error) {
					rates[cpu], err = p.harnesses[cpu].rate(end)
					return err
				})
			})
		})
	}
	all.Wait()
	for _, r := range rates {
		sum += r
	}
	return sum, errors.Join(errs...)
}

// rate runs it until a time, and returns the packets per second of CPU time, in millions.
func (a *Alone) rate(end time.Time) (float64, error) {
	frame := lab.Template(lab.FrameSize)
	packets, spent := 0, 0.0
	for packets == 0 || time.Now().Before(end) {
		_, ns, err := a.at.Run(a.harness, frame, pairCall)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", a.Name, err)
		}
		packets, spent = packets+pairCall, spent+ns*pairCall
	}
	return float64(packets) / spent * 1000, nil
}

// RacePairs measures all in turns, for a time with one CPU and for as long with both, each time in a new order, after a round that
// does not count.
func RacePairs(rig *lab.Rig, rounds int, length time.Duration, all []*Pair) error {
	for round := range rounds + 1 {
		for _, p := range Shuffled(all) {
			if err := rig.Context().Err(); err != nil {
				return err
			}
			one, err := p.run(1, length)
			if err != nil {
				return err
			}
			both, err := p.run(2, length)
			if err != nil {
				return err
			}
			if round > 0 {
				p.One, p.Both = append(p.One, one), append(p.Both, both)
			}
		}
	}
	return nil
}
