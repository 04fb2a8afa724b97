// SPDX-License-Identifier: Apache-2.0

package front

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/rest/message"
)

// Each listener limits the number of open connections, so that a flood on TCP never keeps root from the Unix socket.

// Maximum open connections of one listener, of all clients and of one.
const (
	maxConns          = 1024
	MaxConnsPerClient = 256
)

// maxSocketPath is the size of sun_path.
const maxSocketPath = 107

// Default system groups.
const (
	// Group is the group with full access at the Unix socket.
	Group = "polycube"
	// ReadGroup is the group with read access at a separate socket.
	ReadGroup = "polycube-read"
)

// ListenUnix listens on a socket file with mode 0660 for the constant Group, or 0600 if that does not exist. A socket
// left by a killed daemon is replaced; the caller holds the instance's lock, so no other daemon serves it.
func ListenUnix(path string) (net.Listener, error) { return ListenGroup(path, Group, false) }

// ListenGroup is ListenUnix for another group. Clients of a readOnly socket can only read, even root.
func ListenGroup(path, group string, readOnly bool) (_ net.Listener, err error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fmt.Errorf("socket %s: the path exists and is not a socket", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("replace the socket of a dead daemon: %w", err)
		}
	}
	// The socket is created in a private directory and moved once its mode is right: bind uses the umask of the whole
	// process.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".listen-")
	if err != nil {
		return nil, fmt.Errorf("create directory for socket %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tmp := filepath.Join(dir, "s")
	if most := maxSocketPath - max(len(tmp)-len(path), 0); len(path) > most {
		return nil, fmt.Errorf("socket %s: the path is too long for a Unix socket, the limit is %d bytes", path, most)
	}
	l, err := net.Listen("unix", tmp)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := placeSocket(tmp, path, group); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	limited := limit(l, path)
	limited.readOnly = readOnly
	return limited, nil
}

func placeSocket(tmp, path, group string) error {
	mode := fs.FileMode(0o600)
	if gid := access.GroupID(group); gid >= 0 && os.Geteuid() == 0 {
		mode = 0o660
		if err := os.Chown(tmp, 0, gid); err != nil {
			return fmt.Errorf("change the group of the socket to %s: %w", group, err)
		}
	}
	if err := os.Chmod(tmp, mode); err != nil {
		return fmt.Errorf("change the mode of the socket: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("move socket %s into place: %w", path, err)
	}
	return nil
}

// ListenTCP listens on a loopback address. Any other address is refused: plain HTTP that
// configures the network must not leave the machine.
func ListenTCP(addr string, port uint16) (net.Listener, error) {
	ip, err := loopback(addr)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, port)))
	if err != nil {
		return nil, fmt.Errorf("listen on TCP: %w", err)
	}
	return limit(l, ""), nil
}

// loopback resolves the address option; localhost is 127.0.0.1, as clients expect.
func loopback(addr string) (netip.Addr, error) {
	if addr == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("address %q is neither localhost nor an IP address", addr)
	}
	if ip = ip.Unmap(); !ip.IsLoopback() {
		return netip.Addr{}, fmt.Errorf("address %s is not loopback: remote clients are served only over TLS, with "+
			"--cert, --key, and --cacert or --cert-whitelist; or use the Unix socket over ssh", ip)
	}
	return ip, nil
}

// CheckAddress reports whether an address can be used, with or without mutual TLS.
func CheckAddress(addr string, secure bool) error {
	_, err := listenIP(addr, secure)
	return err
}

func listenIP(addr string, secure bool) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(addr); err == nil && secure {
		return ip.Unmap(), nil
	}
	return loopback(addr)
}

// ListenTLS listens on any address, for clients with certificates.
func ListenTLS(addr string, port uint16, t *access.TLS) (net.Listener, error) {
	ip, err := listenIP(addr, true)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, port)))
	if err != nil {
		return nil, fmt.Errorf("listen on TCP: %w", err)
	}
	limited := limit(l, "")
	limited.silent = true
	return &secureListener{tls.NewListener(limited, t.Config()), limited}, nil
}

// secureListener speaks TLS on the connections that a limitedListener accepts.
type secureListener struct {
	net.Listener
	limited *limitedListener
}

func (l *secureListener) reportTo(r reports) { l.limited.reportTo(r) }

// reports are the callbacks of a listener for events that its clients cannot see.
type reports struct {
	// dropped is called for a connection that was closed immediately, full when all slots are in use.
	dropped func(client *connInfo, reason DropReason)
	full    func(most int)
}

// limitedListener accepts a connection only when a slot is free, and limits the connections of one client.
type limitedListener struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	path  string
	once  sync.Once
	// readOnly marks a read-only socket; silent clients speak TLS and would not understand a plain error.
	readOnly, silent bool

	reports      reports
	reportedFull time.Time

	mu      sync.Mutex
	clients map[string]int
}

// fullAgain is the minimum time between two reports that a listener is full.
const fullAgain = time.Minute

// reportTo is called before Accept.
func (l *limitedListener) reportTo(r reports) { l.reports = r }

func limit(l net.Listener, path string) *limitedListener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, maxConns), done: make(chan struct{}), path: path, clients: map[string]int{}}
}

// Accept waits for a free slot, then for a connection of a client below its limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	if !l.takeSlot() {
		return nil, net.ErrClosed
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		info := identifyConn(c, l.readOnly)
		if l.enter(info.client) {
			return &limitedConn{Conn: c, info: info, created: time.Now(), release: func() { l.leave(info.client) }}, nil
		}
		if l.reports.dropped != nil {
			l.reports.dropped(info, dropTooMany)
		}
		l.rejectConn(c)
	}
}

// takeSlot waits for a free slot; false when the listener is closed.
func (l *limitedListener) takeSlot() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	if now := time.Now(); l.reports.full != nil && now.Sub(l.reportedFull) > fullAgain {
		l.reportedFull = now
		l.reports.full(cap(l.slots))
	}
	select {
	case l.slots <- struct{}{}:
		return true
	case <-l.done:
		return false
	}
}

// enter counts a connection of a client, unless the client is at its limit.
func (l *limitedListener) enter(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if client != "" && l.clients[client] >= MaxConnsPerClient {
		return false
	}
	l.clients[client]++
	return true
}

func (l *limitedListener) leave(client string) {
	l.mu.Lock()
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
	l.mu.Unlock()
	<-l.slots
}

// rejectConn tells a client why, if that costs nothing.
func (l *limitedListener) rejectConn(c net.Conn) {
	if !l.silent {
		body := fmt.Sprintf(`{"ietf-restconf:errors":{"error":[{"error-type":"protocol","error-tag":"resource-denied",`+
			`"error-message":"this client has %d open connections, close some"}]}}`, MaxConnsPerClient)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
			message.ContentType, len(body), body)
	}
	_ = c.Close()
}

// Addr is the address that clients connect to: the socket was created elsewhere and moved.
func (l *limitedListener) Addr() net.Addr {
	if l.path != "" {
		return &net.UnixAddr{Name: l.path, Net: "unix"}
	}
	return l.Listener.Addr()
}

// Close removes the socket file first, so that a client gets "no such file" instead of a connection without a
// response.
func (l *limitedListener) Close() error {
	l.once.Do(func() {
		close(l.done)
		if l.path != "" {
			_ = unix.Unlink(l.path)
		}
	})
	return l.Listener.Close()
}
