// SPDX-License-Identifier: Apache-2.0

package health

// TCP sockets, without Go's: a server's socket is opened in the namespace of the thread, and connected again for each
// connection until a check fails. connect(2) with AF_UNSPEC ends a connection with a RST, so nothing remains in TIME_WAIT, and keeps
// the socket with its options, its source port and its place in epoll.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxUses is how many checks use a connection: a new one shows that the server still accepts connections.
	maxUses = 100
	// bindTries is how many ports of a range are tried for a socket; the next check continues with others.
	bindTries = 32
)

// conn is the socket of a server, and what is known of its connection.
type conn struct {
	slot int32 // of the server in epoll events
	fd   int
	open bool
	// connected says that a connection is kept, uses how many requests were sent on it.
	connected bool
	uses      int
	answer    answer
}

// connect starts to connect.
func (t *thread) connect(s *server) {
	to, err := t.openSocket(s)
	if err != nil {
		t.closeSocket(s)
		t.sched.finish(s, skipped(fmt.Sprintf("cannot check: %v", err)))
		return
	}
	t.c.count.connections.Add(1)
	s.phase = connecting
	if s.check.Kind == TCP {
		// Without an immediate acknowledgement, the RST comes before the ACK of the handshake.
		_ = unix.SetsockoptInt(s.conn.fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0)
	}
	err = unix.Connect(s.conn.fd, to)
	switch {
	case err == nil:
		t.established(s)
	case !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.EINTR):
		t.refused(s, err)
	}
}

// refused takes the error of a connection attempt. As after every failure, the next check opens another socket: the
// device that this one is bound to may be gone, or its source port in use.
func (t *thread) refused(s *server, err error) {
	t.closeSocket(s)
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EADDRINUSE):
		t.sched.finish(s, skipped("cannot check: no free source port"))
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EINVAL): // the device or the source address is gone
		t.sched.finish(s, skipped("cannot check: connect: "+words(err)))
	default:
		t.sched.finish(s, failure(words(err)))
	}
}

// established continues when the connection is open.
func (t *thread) established(s *server) {
	switch s.check.Kind {
	case HTTP:
		s.conn.connected, s.conn.uses = true, 0
		t.request(s)
	case HTTPS, GRPC:
		// The goroutine gets the socket: epoll forgets it first, or it would report events of the duplicate.
		fd := s.conn.fd
		_ = unix.EpollCtl(t.epoll, unix.EPOLL_CTL_DEL, fd, nil)
		s.conn.open = false
		t.launch(s, fd)
	default:
		t.disconnect(s)
		t.sched.finish(s, success)
	}
}

// ready handles an event of a server's socket.
func (t *thread) ready(s *server, events uint32) {
	defer t.recovered(s)
	const closed = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	switch {
	case !s.conn.open:
	case s.phase == connecting && events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
		if code, err := unix.GetsockoptInt(s.conn.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
			t.refused(s, unix.Errno(code))
		} else {
			t.refused(s, unix.ECONNRESET)
		}
	case s.phase == connecting && events&unix.EPOLLOUT != 0:
		t.established(s)
	case s.phase == exchanging:
		t.receive(s, events&closed != 0)
	case s.conn.connected && events&(closed|unix.EPOLLIN) != 0: // closed by the server, or it sent what no one asked for
		t.disconnect(s)
	}
}

// openSocket makes sure that there is a socket, and returns where to connect it.
func (t *thread) openSocket(s *server) (to unix.Sockaddr, err error) {
	if s.conn.open {
		return sockaddr(s.conn.fd, s.check.Target)
	}
	p, family := s.check, unix.AF_INET
	if p.Target.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	s.conn.fd, s.conn.open, s.conn.connected = fd, true, false
	if err := setOptions(fd, p); err != nil {
		return nil, err
	}
	if err := bind(fd, p); err != nil {
		return nil, err
	}
	const events = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	if err := unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: s.conn.slot}); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return sockaddr(fd, p.Target)
}

func setOptions(fd int, p *prepared) error {
	if p.Mark != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(p.Mark)); err != nil {
			return fmt.Errorf("set mark %#x: %w", p.Mark, err)
		}
	}
	if p.Device != "" {
		if err := unix.BindToDevice(fd, p.Device); err != nil {
			return fmt.Errorf("bind to device %s: %w", p.Device, err)
		}
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("set TCP_NODELAY: %w", err)
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("set SO_LINGER: %w", err)
	}
	return nil
}

// bind binds to the source address and to a port of the range.
func bind(fd int, p *prepared) error {
	if !p.Source.IsValid() && p.SourcePorts.Last == 0 {
		return nil
	}
	source := p.Source
	if !source.IsValid() {
		source = netip.IPv4Unspecified()
		if p.Target.Addr().Is6() {
			source = netip.IPv6Unspecified()
		}
	}
	// Other sockets may have the same port with other servers. Without a range, the kernel chooses when it connects.
	option, level := unix.SO_REUSEADDR, unix.SOL_SOCKET
	if p.SourcePorts.Last == 0 {
		option, level = unix.IP_BIND_ADDRESS_NO_PORT, unix.IPPROTO_IP
	}
	if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
		return fmt.Errorf("bind to %v: %w", source, err)
	}
	count := int(p.SourcePorts.Last) - int(p.SourcePorts.First) + 1
	first := rand.IntN(count) //nolint:gosec // spreads ports
	var err error
	for i := range min(count, bindTries) {
		port := p.SourcePorts.First + uint16((first+i)%count)
		var from unix.Sockaddr
		if from, err = sockaddr(fd, netip.AddrPortFrom(source, port)); err != nil {
			return err
		}
		if err = unix.Bind(fd, from); !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		if p.SourcePorts.Last == 0 {
			return fmt.Errorf("bind to %v: %w", source, err)
		}
		return fmt.Errorf("bind to %v, port %v: %w", source, p.SourcePorts, err)
	}
	return nil
}

// disconnect ends a connection, or the attempt to connect, and keeps the socket.
func (t *thread) disconnect(s *server) {
	if !s.conn.open {
		return
	}
	s.conn.connected = false
	unspec := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(s.conn.fd), uintptr(unsafe.Pointer(&unspec)), unsafe.Sizeof(unspec))
	if errno != 0 {
		t.closeSocket(s)
	}
}

func (t *thread) closeSocket(s *server) {
	if s.conn.open {
		unix.Close(s.conn.fd)
		s.conn.open, s.conn.connected = false, false
	}
}

// sockaddr returns the address for system calls; a zone is looked up in the namespace of the socket.
func sockaddr(fd int, a netip.AddrPort) (unix.Sockaddr, error) {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
	}
	to := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		index, err := deviceIndex(fd, zone)
		if err != nil {
			return nil, err
		}
		to.ZoneId = index
	}
	return to, nil
}

// deviceIndex looks up a netdev in the namespace of a socket.
func deviceIndex(fd int, name string) (uint32, error) {
	var request struct {
		name  [unix.IFNAMSIZ]byte
		index int32
		_     [20]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFINDEX, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return 0, fmt.Errorf("device %s: %w", name, errno)
	}
	return uint32(request.index), nil
}

// words says what an error of a system call or of a connection means for the server.
func words(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		if errno == unix.ECONNRESET || errno == unix.EPIPE {
			return "the server reset the connection"
		}
		return errno.Error()
	}
	if errors.Is(err, net.ErrClosed) {
		return "the connection was closed"
	}
	return err.Error()
}
