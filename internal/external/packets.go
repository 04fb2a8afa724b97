// SPDX-License-Identifier: Apache-2.0

package external

// Packets and messages are sent to the service in batches, from a queue with a common limit for all its cubes: the
// reader of the slow path never waits for a service. Packets from the service are sent to the fast path as they
// arrive.

import (
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// packets are the packets that wait for the service.
type packets struct {
	mu      sync.Mutex
	waiting []*pb.PacketIn
	notices []*pb.Notice
	bytes   int
	dropped uint64
	total   uint64
	wake    chan struct{}
	rate    *bucket
	// refused counts packets of the service that could not be sent to the fast path.
	refused atomic.Uint64
}

func newPackets() *packets {
	return &packets{wake: make(chan struct{}, 1), rate: newBucket(packetRate)}
}

// offer queues a packet or a notice.
func (q *packets) offer(p *pb.PacketIn, n *pb.Notice, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting)+len(q.notices) >= packetQueue || q.bytes+size > packetBytes {
		q.dropped++
		q.total++
		return
	}
	q.bytes += size
	if p != nil {
		q.waiting = append(q.waiting, p)
	} else {
		q.notices = append(q.notices, n)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take removes up to a batch; nil if nothing waits.
func (q *packets) take() *pb.PacketsIn {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 && len(q.notices) == 0 {
		return nil
	}
	m := &pb.PacketsIn{Dropped: q.dropped}
	q.dropped = 0
	n := min(batchSize, len(q.waiting))
	m.Packets = q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	k := min(batchSize-n, len(q.notices))
	m.Notices = q.notices[:k:k]
	q.notices = q.notices[k:]
	for _, p := range m.Packets {
		q.bytes -= len(p.GetData())
	}
	for _, p := range m.Notices {
		q.bytes -= len(p.GetData())
	}
	return m
}

// count is how many packets and notices did not reach the service.
func (q *packets) count() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

// sessionKey is the metadata that names the session of a packet stream.
const sessionKey = "polycube-session"

// openPackets opens the packet stream.
func (l *life) openPackets() error {
	stream, err := l.client.Packets(metadata.AppendToOutgoingContext(l.ctx, sessionKey, l.session))
	if err != nil {
		return fmt.Errorf("open its stream of packets: %w", callError(err))
	}
	l.work.Go(func() { l.sendPackets(stream) })
	l.work.Go(func() { l.readPackets(stream) })
	return nil
}

func (l *life) sendPackets(stream grpc.BidiStreamingClient[pb.PacketsIn, pb.PacketsOut]) {
	for {
		select {
		case <-l.packets.wake:
		case <-l.done:
			_ = stream.CloseSend() // the stream has ended anyway
			return
		}
		for m := l.packets.take(); m != nil; m = l.packets.take() {
			if err := stream.Send(m); err != nil {
				l.end(&lost{"its stream of packets ended", true})
				return
			}
		}
	}
}

func (l *life) readPackets(stream grpc.BidiStreamingClient[pb.PacketsIn, pb.PacketsOut]) {
	for {
		m, err := stream.Recv()
		if err != nil {
			l.end(lostError("its stream of packets ended", err))
			return
		}
		for _, p := range m.GetPackets() {
			if !l.packets.rate.take() {
				l.packets.refused.Add(1)
				continue
			}
			if err := l.sendOne(p); err != nil {
				l.packets.refused.Add(1)
				if l.lines.take() {
					l.log.Warn("a packet of a service was dropped", "err", err)
				}
			}
		}
	}
}

// sendOne sends a packet to the fast path.
func (l *life) sendOne(p *pb.PacketOut) error {
	i, err := l.cube(p.GetCube())
	if err != nil {
		return err
	}
	dir, err := directionOf(p.GetDirection())
	if err != nil {
		return err
	}
	t := p.GetTrip()
	switch {
	case len(p.GetData()) < 14 || len(p.GetData()) > maxFrame:
		return fmt.Errorf("a frame of %d bytes: %w", len(p.GetData()), cube.ErrInvalid)
	case len(p.GetMetadata()) > 4:
		return fmt.Errorf("%d words of metadata instead of 4: %w", len(p.GetMetadata()), cube.ErrInvalid)
	case p.GetPort() > 0xffff || t.GetHops() > 0xffff || t.GetGsoSize() > 0xffff || t.GetGsoSegs() > 0xffff || t.GetNetdev() > 1<<31-1 ||
		t.GetOfferedFrom() > 0xffff:
		return fmt.Errorf("a number of its path is out of range: %w", cube.ErrInvalid)
	}
	out := &cube.PacketOut{Port: uint16(p.GetPort()), Direction: dir, Recirculate: p.GetRecirculate(), TrafficClass: p.GetTrafficClass(),
		Trip: cube.Trip{Hops: uint16(t.GetHops()), Netdev: int(t.GetNetdev()), FlowHash: t.GetFlowHash(), Tenant: t.GetTenant(),
			Turned: t.GetTurned(), Offered: t.GetOffered(), OfferedFrom: uint16(t.GetOfferedFrom())},
		Offload: cube.Offload{GSOSize: uint16(t.GetGsoSize()), GSOSegs: uint16(t.GetGsoSegs())}, Data: p.GetData()}
	copy(out.Metadata[:], p.GetMetadata())
	return i.env.Send(out)
}

// PacketIn sends a packet to the service. It does not wait.
func (i *instance) PacketIn(p *cube.PacketIn) {
	if !i.l.description.GetPackets() || i.l.ended() {
		return
	}
	dir := pb.Direction_DIRECTION_INGRESS
	if p.Direction == cube.Egress {
		dir = pb.Direction_DIRECTION_EGRESS
	}
	m := &pb.PacketIn{Cube: i.handle, Port: uint32(p.Port), Direction: dir, Reason: uint32(p.Reason), Metadata: p.Metadata[:],
		TrafficClass: p.TrafficClass, Length: uint32(p.Length), Data: append([]byte(nil), p.Data...),
		Trip: &pb.Trip{Hops: uint32(p.Trip.Hops), Netdev: uint32(p.Trip.Netdev), FlowHash: p.Trip.FlowHash, Tenant: p.Trip.Tenant,
			GsoSize: uint32(p.Offload.GSOSize), GsoSegs: uint32(p.Offload.GSOSegs),
			Turned: p.Trip.Turned, Offered: p.Trip.Offered, OfferedFrom: uint32(p.Trip.OfferedFrom)}}
	m.Metadata = append([]uint32(nil), m.Metadata...)
	i.l.packets.offer(m, nil, len(m.Data))
}

// Notify sends a message of the programs to the service. It does not wait.
func (i *instance) Notify(kind uint32, data []byte) {
	if !i.l.description.GetNotifications() || i.l.ended() {
		return
	}
	i.l.packets.offer(nil, &pb.Notice{Cube: i.handle, Kind: kind, Data: append([]byte(nil), data...)}, len(data))
}
