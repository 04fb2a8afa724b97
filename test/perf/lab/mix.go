// SPDX-License-Identifier: Apache-2.0

// A mix of two kinds of flows through a machine that forwards, and the CPU time of all who handle its packets.

package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// The mix: of MixOf packets a given number belong to the Elephants, long flows; the others to mice, which are as many flows as long, or short ones of
// MousePackets packets each, so many at a time that a multiple of MixPeriod packets of mice contains whole flows only.
const (
	MixOf        = 4
	Elephants    = 4
	MousePackets = 16
	MixPeriod    = 64 * MousePackets
)

// MixFrame is the length of the frames, the longest one of Ethernet.
const MixFrame = 1514

// Payload is how packets of a kind of flows begin, and the port that they are for. The other bytes are 0.
type Payload struct {
	Port  uint16
	Begin [18]byte
}

// Mix sends the mix from the left host, to one server.
type Mix struct {
	*Stream
	objects *ebpf.Collection
}

// Mix prepares a mix. Each packet of elephants has its number in bytes 2 and 3 of the payload.
func (f *Filtered) Mix(r *Rig, server netip.Addr, elephant, mouse Payload) (*Mix, error) {
	coll, err := r.generator("mix", f.Left)
	if err != nil {
		return nil, err
	}
	var frames [][]byte
	var sum uint32
	for _, p := range []Payload{elephant, mouse} {
		ip := p.packet(server)
		sum = half(words(ip[:20]))
		frames = append(frames, f.frameOf(ip)[:FrameSize])
	}
	first := netip.MustParsePrefix(Clients).Addr().As4()
	err = errors.Join(putFrames(coll, frames), coll.Variables["gen_first"].Set(uint32(first[0])<<24|uint32(first[1])<<16),
		coll.Variables["gen_ip_sum"].Set(sum))
	if err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	return &Mix{&Stream{program: "mix", objects: coll, received: f.objects.Maps["received"], from: f.Left, size: MixFrame}, coll}, nil
}

// packet is the packet without the client's address and port, and without checksums.
func (p Payload) packet(server netip.Addr) []byte {
	const length = MixFrame - 14 - 20
	udp := make([]byte, length)
	copy(udp, []byte{0, 0, byte(p.Port >> 8), byte(p.Port), length >> 8, length & 0xff})
	copy(udp[8:], p.Begin[:])
	h := pkt.IPv4Header{From: netip.IPv4Unspecified().String(), To: server.String(), Protocol: pkt.ProtoUDP, TTL: 64, Fragment: 0x4000}
	ip := h.Packet(udp)
	copy(ip[10:], []byte{0, 0})
	return ip
}

// Set sets how many of MixOf packets are those of elephants, and whether mice never end.
func (m *Mix) Set(elephants int, endless bool) error {
	var never uint32
	if endless {
		never = 1
	}
	if err := errors.Join(m.objects.Variables["mix_elephants"].Set(uint32(elephants)), m.objects.Variables["mix_endless"].Set(never)); err != nil {
		return fmt.Errorf("generator: %w", err)
	}
	return nil
}

// Usage is CPU time in ns: of the sender with all that the kernel does for its packets at once, and of processes.
type Usage struct {
	Sender    int64
	Processes []int64
}

// All is the sum.
func (u Usage) All() int64 {
	sum := u.Sender
	for _, ns := range u.Processes {
		sum += ns
	}
	return sum
}

// patience is how long nothing may happen until packets count as lost.
const patience = 2 * time.Second

// Arriving waits until a growing number has reached another one, or stands still.
func Arriving(want uint64, read func() (uint64, error)) error {
	var was uint64
	for last := time.Now(); time.Since(last) < patience; time.Sleep(time.Millisecond) {
		is, err := read()
		if err != nil || is >= want {
			return err
		}
		if is > was {
			was, last = is, time.Now()
		}
	}
	return nil
}

// Among sends packets that are handled by processes, too. If they are to arrive, it waits for them; done waits until the processes have
// handled what was sent. The time of the sender contains that of all ksoftirqd.
func (m *Mix) Among(n int, arrive bool, pids []int, done func(sent uint64) error) (p Passage, u Usage, err error) {
	softirqs, err := softirqPIDs()
	if err != nil {
		return p, u, err
	}
	all := append(softirqs, pids...)
	var before, after [2]uint64
	if before, err = m.counts(); err != nil {
		return p, u, err
	}
	spent, err := timesOf(all)
	if err != nil {
		return p, u, err
	}
	err = netns.OnCPU(0, func() error {
		return netns.Uninterrupted(func() error {
			start := threadTime()
			err := m.burst(n)
			u.Sender = threadTime() - start
			return err
		})
	})
	if err != nil {
		return p, u, err
	}
	if after, err = m.counts(); err != nil {
		return p, u, err
	}
	p.Sent = after[0] - before[0]
	if arrive {
		if err := Arriving(before[1]+p.Sent, func() (uint64, error) { return total(m.received) }); err != nil {
			return p, u, err
		}
	}
	if err := done(p.Sent); err != nil {
		return p, u, err
	}
	return p, u, m.spent(&p, &u, before, all, len(softirqs), spent)
}

// spent completes what Among returns: the times of the first processes are the sender's.
func (m *Mix) spent(p *Passage, u *Usage, before [2]uint64, pids []int, senders int, was []int64) error {
	is, err := timesOf(pids)
	if err != nil {
		return err
	}
	for i := range is {
		if ns := is[i] - was[i]; i < senders {
			u.Sender += ns
		} else {
			u.Processes = append(u.Processes, ns)
		}
	}
	after, err := m.counts()
	p.NS, p.Received = u.All(), after[1]-before[1]
	return err
}

// counts are the packets that were sent and those that have arrived.
func (m *Mix) counts() (n [2]uint64, err error) {
	if n[0], err = total(m.objects.Maps["sent"]); err == nil {
		n[1], err = total(m.received)
	}
	return n, err
}

// softirqPIDs are the numbers of the ksoftirqd of all CPUs.
func softirqPIDs() ([]int, error) {
	var out []int
	for cpu := range lastCPU() + 1 {
		pid, err := ksoftirqd(cpu)
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	return out, nil
}

// timesOf are the CPU times of processes.
func timesOf(pids []int) ([]int64, error) {
	out := make([]int64, len(pids))
	for i, pid := range pids {
		var err error
		if out[i], err = threadsTime(pid); err != nil {
			return nil, err
		}
	}
	return out, nil
}
