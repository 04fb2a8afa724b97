// SPDX-License-Identifier: Apache-2.0

package probe

// The way of checks and answers, and which check belongs to which server.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/wire"
)

const (
	// FirstPort is the first source port of checks.
	FirstPort = 32768
	// portsEach is how many a server has: an old connection may still close while a new one opens.
	portsEach = 4
	// maxServers is how many servers of a target can be told apart.
	maxServers = (1<<16 - FirstPort) / portsEach
	// MinIPv6 is the smallest MTU of IPv6: with a smaller one, there are no checks of IPv6.
	MinIPv6  = 1280
	etherLen = 14
	maxFrame = etherLen + 1<<16
)

// Options are the options of a Path.
type Options struct {
	// MTU is that of the device: packets of checks are not larger.
	MTU int
	// Send is called with each packet of a check, and the number of the server that it is for. The frame has an Ethernet
	// header without addresses, and is valid during the call. Calls come one at a time, from a goroutine of the Path.
	Send func(server uint32, frame []byte)
}

// Target is what is checked: an address, and a port of TCP; for ICMP the port is 0.
type Target struct {
	Addr netip.Addr
	Port uint16
}

// Path is a namespace with the sources of checks. Its methods may be called concurrently.
type Path struct {
	send func(server uint32, frame []byte)
	ns   *os.File
	tun  *os.File
	done chan struct{} // closed when the reader has ended

	strays atomic.Uint64

	mu      sync.RWMutex // guards what follows
	mtu     int
	sources map[netip.Addr]bool
	targets map[Target]*slots
}

// slots are the servers of a target. The server of a slot is its number plus one; 0: the slot is free.
type slots struct {
	servers []uint64
	used    int
}

// Open opens a namespace without sources and targets.
func Open(o Options) (*Path, error) {
	p := &Path{send: o.Send, done: make(chan struct{}), sources: map[netip.Addr]bool{}, targets: map[Target]*slots{}}
	if err := p.open(o.MTU); err != nil {
		return nil, fmt.Errorf("the namespace of health checks: %w", err)
	}
	go p.read()
	return p, nil
}

// Namespace is the file of the namespace, for health.Options.
func (p *Path) Namespace() string { return fmt.Sprintf("/proc/self/fd/%d", p.ns.Fd()) }

// Take returns the source ports of checks of a target whose packets are for a server. The caller gives them back with Release.
func (p *Path) Take(t Target, server uint32) (inet.Ports, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.targets[t]
	if is == nil {
		is = &slots{}
		p.targets[t] = is
	}
	at := len(is.servers)
	for i, s := range is.servers {
		if s == 0 && is.used < len(is.servers) {
			at = i
			break
		}
	}
	if at == maxServers {
		return inet.Ports{}, fmt.Errorf("health checks of %v: %d servers are checked there, which is the maximum: %w", t, maxServers, cube.ErrFull)
	}
	if at == len(is.servers) {
		is.servers = append(is.servers, 0)
	}
	is.servers[at] = uint64(server) + 1
	is.used++
	first := uint16(FirstPort + at*portsEach)
	return inet.Ports{First: first, Last: first + portsEach - 1}, nil
}

// Release gives back the ports of a server.
func (p *Path) Release(t Target, ports inet.Ports) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.targets[t]
	if is == nil || is.of(ports.First) == 0 {
		return
	}
	is.servers[(int(ports.First)-FirstPort)/portsEach] = 0
	if is.used--; is.used == 0 {
		delete(p.targets, t)
	}
}

// Ports returns how many ports from FirstPort on belong to servers of a target, for a filter in front of Receive; 0 if the
// target is not checked.
func (p *Path) Ports(t Target) uint32 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if is := p.targets[t]; is != nil {
		return uint32(len(is.servers) * portsEach)
	}
	return 0
}

// of returns the server of a port plus one; 0 if it is no one's.
func (s *slots) of(port uint16) uint64 {
	if port < FirstPort || int(port-FirstPort)/portsEach >= len(s.servers) {
		return 0
	}
	return s.servers[int(port-FirstPort)/portsEach]
}

// Strays counts packets on the way out and back that belong to no check.
func (p *Path) Strays() uint64 { return p.strays.Load() }

// read gives the packets of checks to the cube, until the device is closed.
func (p *Path) read() {
	defer close(p.done)
	frame := make([]byte, maxFrame)
	for {
		n, err := p.tun.Read(frame[etherLen:])
		if errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EBADFD) {
			return
		}
		if err != nil || n == 0 {
			continue
		}
		out := frame[:etherLen+n]
		etherType := uint16(wire.EtherIPv4)
		if out[etherLen]>>4 == 6 {
			etherType = wire.EtherIPv6
		}
		binary.BigEndian.PutUint16(out[12:], etherType)
		if server, ok := p.serverOf(out); ok {
			p.send(server, out)
		}
	}
}

// serverOf returns the server that a packet of a check is for. The kernel also sends packets of its own, such as router
// solicitations, which are for none.
func (p *Path) serverOf(frame []byte) (server uint32, ok bool) {
	ip, err := wire.ParseIP(frame)
	if err != nil {
		return 0, false
	}
	f, ok := flowOf(&ip, true)
	if !ok {
		return 0, false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	is := p.targets[Target{ip.Dst, f.far}]
	if is == nil || !p.sources[ip.Src] {
		return 0, false
	}
	number := is.of(f.near)
	if number == 0 {
		p.strays.Add(1)
	}
	return uint32(number - 1), number != 0
}

// Receive gives the answer to a check, in an Ethernet frame, to the namespace. A packet that is not the answer to a check of
// a server is not accepted, and counted.
func (p *Path) Receive(frame []byte) (ok bool) {
	ip, err := wire.ParseIP(frame)
	if err != nil || ip.Fragment() || !p.expects(&ip) {
		p.strays.Add(1)
		return false
	}
	ip.CompleteTCP()
	if _, err := p.tun.Write(ip.Data); err != nil {
		p.strays.Add(1)
		return false
	}
	return true
}

func (p *Path) expects(ip *wire.Packet) bool {
	f, ok := flowOf(ip, false)
	if !ok {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	is := p.targets[Target{ip.Src, f.far}]
	return is != nil && p.sources[ip.Dst] && is.of(f.near) != 0
}

// Close ends everything. Checks in the namespace are to be ended before.
func (p *Path) Close() error {
	err := p.tun.Close()
	<-p.done
	return errors.Join(err, p.ns.Close())
}
