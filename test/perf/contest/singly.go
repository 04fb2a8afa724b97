// SPDX-License-Identifier: Apache-2.0

package contest

// Programs that are timed by single runs: each packet is another one.

import (
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// SinglyText says how programs are timed.
const SinglyText = "The program alone, by `BPF_PROG_TEST_RUN`: one run for each packet, timed by the kernel's statistics (`bpf_stats`). Of " +
	"each of three blocks of packets the fastest tenth is what counts (10th percentile), of a round its best block, and an empty program, timed in the same way in the same " +
	"rounds, is subtracted. System calls between the runs displace much of what the processor's caches know, as in eUPF's figures."

// Single is a program that is timed by single runs.
type Single struct {
	Name    string
	At      lab.Place
	Program *ebpf.Program
	// Frames returns so many packets, new ones each time.
	Frames func(n int) [][]byte
	// Check checks what becomes of a packet.
	Check func(verdict uint32, out []byte) error
	// Times has the time of each round.
	Times report.Sample
}

// Empty is a program that does nothing, on the packets of another one.
func Empty(rig *lab.Rig, like *Single) (*Single, error) {
	spec, err := bpf.Spec("replay", like.At.Hook())
	if err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("empty program: %w", err)
	}
	rig.Cleanup(coll.Close)
	return &Single{
		Name: Nothing, At: like.At, Program: coll.Programs["nothing"], Frames: like.Frames, Check: func(uint32, []byte) error { return nil },
	}, nil
}

// blocks are the parts of a round, of which the best counts: other load of the machine only adds.
const blocks = 3

// run times it on n packets.
func (s *Single) run(n int) error {
	best := math.Inf(1)
	for range blocks {
		tenth, err := s.block(n / blocks)
		if err != nil {
			return err
		}
		best = min(best, tenth)
	}
	s.Times = append(s.Times, best)
	return nil
}

// block returns the 10th percentile of the times of n packets.
func (s *Single) block(n int) (tenth float64, err error) {
	frames := s.Frames(n)
	err = netns.OnCPU(0, func() error {
		return netns.Uninterrupted(func() error {
			times, err := s.At.Singly(s.Program, frames, func(i int, verdict uint32, out []byte) error {
				if err := s.Check(verdict, out); err != nil {
					return fmt.Errorf("%s: packet %x: %w", s.Name, frames[i], err)
				}
				return nil
			})
			tenth = report.Sample(times).Quantile(0.1)
			return err
		})
	})
	return tenth, err
}

// RaceSingly times all in turns with n packets a round, each time in a new order, after a round that does not count.
func RaceSingly(rig *lab.Rig, rounds, n int, all []*Single) error {
	for round := range rounds + 1 {
		for _, s := range Shuffled(all) {
			if err := errors.Join(rig.Context().Err(), s.run(n)); err != nil {
				return err
			}
			if round == 0 {
				s.Times = nil
			}
		}
	}
	return nil
}
