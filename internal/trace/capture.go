// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/slowpath"
)

// Packet is a captured packet, with its fate.
type Packet struct {
	Line
	// In is true for a packet received at the place.
	In   bool
	Data []byte
}

// fateWait is how long a packet waits for the record of its fate, which follows immediately unless the ring was full.
const fateWait = 100 * time.Millisecond

// pending is a packet received by a cube whose program has not returned yet.
type pending struct {
	step  slowpath.Step
	since time.Time
}

// NextPacket waits for the next packet of a capture. It returns io.EOF when the session has ended, and the context's
// error when that ends.
func (s *Session) NextPacket(ctx context.Context) (*Packet, error) {
	if s.countReached() {
		return nil, io.EOF
	}
	p, err := s.nextPacket(ctx)
	if err == nil {
		s.take()
	}
	return p, err
}

func (s *Session) nextPacket(ctx context.Context) (*Packet, error) {
	for {
		if p := s.late(); p != nil {
			return p, nil
		}
		step, err := s.nextWithin(ctx)
		switch {
		case errors.Is(err, errLate):
			continue
		case err != nil:
			if p := s.oldest(errors.Is(err, io.EOF)); p != nil {
				return p, nil
			}
			return nil, err
		}
		if p := s.join(step); p != nil {
			return p, nil
		}
	}
}

var errLate = errors.New("flush interval elapsed")

// nextWithin is next, with errLate while packets wait for their fate.
func (s *Session) nextWithin(ctx context.Context) (*slowpath.Step, error) {
	if len(s.waiting) == 0 {
		return s.next(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, fateWait)
	defer cancel()
	step, err := s.next(limited)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = errLate
	}
	return step, err
}

// late returns a packet that has waited too long.
func (s *Session) late() *Packet {
	return s.oldest(len(s.waiting) > 0 && time.Since(s.waiting[0].since) >= fateWait)
}

// oldest returns the first waiting packet without its fate, if now is true.
func (s *Session) oldest(now bool) *Packet {
	if !now || len(s.waiting) == 0 {
		return nil
	}
	step := s.waiting[0].step
	s.waiting = s.waiting[1:]
	return s.packet(&step, nil)
}

// join combines a packet's record with that of its fate.
func (s *Session) join(step *slowpath.Step) *Packet {
	switch step.Stage {
	case link.StageOut:
		return s.packet(step, nil)
	case link.StageIn:
		s.waiting = append(s.waiting, pending{*step, time.Now()})
	case link.StageProgram:
		if step.Verdict == verdictCall {
			return nil // another program of the cube continues
		}
		for i, p := range s.waiting {
			if p.step.ID == step.ID && p.step.Cube == step.Cube && p.step.Egress == step.Egress {
				s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
				return s.packet(&p.step, step)
			}
		}
	}
	return nil
}

// packet describes a captured packet; fate is the record of what the cube did with it, or nil.
func (s *Session) packet(step, fate *slowpath.Step) *Packet {
	p := &Packet{In: step.Stage == link.StageIn && !step.Egress, Data: step.Data}
	switch {
	case fate != nil:
		p.Line = s.hub.describe(fate)
	case step.Stage == link.StageOut:
		p.Line = s.hub.describe(step)
		p.Verdict, p.Reason, p.Out, p.Direction = "sent", "", "", "egress"
		p.Port = s.hub.topology.PortName(s.hub.cubeID(step), uint16(step.Extra))
	default:
		p.Line = s.hub.describe(step)
		p.Verdict, p.Reason, p.Out = "unknown", "", ""
	}
	p.Time, p.Length, p.Summary = s.epoch.Add(step.Time), step.Length, Summarise(step.Data, step.Length)
	return p
}

// fate is the fate of the packet, in words.
func (p *Packet) fate() string { return strings.TrimSpace(p.Verdict + " " + p.Reason + p.Out) }

// place is where it was captured.
func (p *Packet) place() string {
	if p.Port == "" {
		return p.Cube
	}
	return p.Cube + ":" + p.Port
}

// File writes packets in pcapng format, which tcpdump and Wireshark read: the direction in the flags, place and fate
// in comments.
type File struct{ w *pcapgo.NgWriter }

// NewFile starts a file of packets captured at a place with a filter.
func NewFile(to io.Writer, place, filter string) (*File, error) {
	w, err := pcapgo.NewNgWriterInterface(to, pcapgo.NgInterface{
		Name: place, Filter: filter, OS: "Linux", LinkType: layers.LinkTypeEthernet, TimestampResolution: 9,
	}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{OS: "Linux", Application: "Polycube"}})
	if err != nil {
		return nil, fmt.Errorf("write the header of the capture file: %w", err)
	}
	return &File{w}, nil
}

// Write appends a packet.
func (f *File) Write(p *Packet) error {
	flags := pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
	if p.In {
		flags.Direction = pcapgo.NgEpbFlagDirectionInbound
	}
	err := f.w.WritePacketWithOptions(
		gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(p.Data), Length: p.Length}, p.Data,
		pcapgo.NgPacketOptions{Flags: &flags, Comments: []string{"port " + p.place(), "fate " + p.fate()}})
	if err != nil {
		return fmt.Errorf("write a packet: %w", err)
	}
	return nil
}

// End appends the number of lost packets, and flushes.
func (f *File) End(s Summary) error {
	err := f.w.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{
		LastUpdate: time.Now(), PacketsReceived: uint64(s.Steps), PacketsDropped: s.Lost + s.LostInRing,
	})
	if err = errors.Join(err, f.w.Flush()); err != nil {
		return fmt.Errorf("finish the capture file: %w", err)
	}
	return nil
}

// Flush writes everything to the underlying writer.
func (f *File) Flush() error { return f.w.Flush() }
