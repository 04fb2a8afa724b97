// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Listeners bound the number of open connections each, so that a flood on TCP never
// keeps root from the Unix socket.

// maxConns is the number of connections that one listener keeps open.
const maxConns = 1024

// maxSocketPath is the room in sun_path.
const maxSocketPath = 107

// Group is the system group whose members may use the Unix socket.
const Group = "polycube"

// groupID returns the number of a system group, -1 when there is none.
func groupID(name string) int {
	g, err := user.LookupGroup(name)
	if err != nil {
		return -1
	}
	id, err := strconv.Atoi(g.Gid)
	if err != nil {
		return -1
	}
	return id
}

// ListenUnix listens on a socket file of mode 0660 for the group, or 0600 when the group
// does not exist. A socket left by a killed daemon is replaced; the caller holds the
// instance's lock, so nobody serves it.
func ListenUnix(path string) (_ net.Listener, err error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fmt.Errorf("socket %s: a file of another kind is in its place", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("replacing the socket of a dead daemon: %w", err)
		}
	}
	// The socket is born in a closed directory and moved when its mode is right: bind
	// takes the umask of the whole process.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".listen-")
	if err != nil {
		return nil, fmt.Errorf("making room for socket %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tmp := filepath.Join(dir, "s")
	if most := maxSocketPath - max(len(tmp)-len(path), 0); len(path) > most {
		return nil, fmt.Errorf("socket %s: the path is too long for a Unix socket, %d bytes at most", path, most)
	}
	l, err := net.Listen("unix", tmp)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := placeSocket(tmp, path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return limit(l, path), nil
}

func placeSocket(tmp, path string) error {
	mode := fs.FileMode(0o600)
	if group := groupID(Group); group >= 0 && os.Geteuid() == 0 {
		mode = 0o660
		if err := os.Chown(tmp, 0, group); err != nil {
			return fmt.Errorf("giving the socket to group %s: %w", Group, err)
		}
	}
	if err := os.Chmod(tmp, mode); err != nil {
		return fmt.Errorf("setting the mode of the socket: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("placing socket %s: %w", path, err)
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
		return nil, fmt.Errorf("listening on TCP: %w", err)
	}
	return limit(l, ""), nil
}

// loopback resolves the address option; localhost is 127.0.0.1, as clients compare it.
func loopback(addr string) (netip.Addr, error) {
	if addr == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("address %q: neither localhost nor an IP address", addr)
	}
	if ip = ip.Unmap(); !ip.IsLoopback() {
		return netip.Addr{}, fmt.Errorf("address %s is not loopback: this release serves TCP on loopback only; "+
			"use the Unix socket (over ssh from afar)", ip)
	}
	return ip, nil
}

// limitedListener accepts a connection only when a slot is free.
type limitedListener struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	path  string
	once  sync.Once
}

func limit(l net.Listener, path string) net.Listener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, maxConns), done: make(chan struct{}), path: path}
}

// Accept waits for a free slot, then for a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, release: func() { <-l.slots }}, nil
}

// Addr is where clients connect: the socket was made elsewhere and moved.
func (l *limitedListener) Addr() net.Addr {
	if l.path != "" {
		return &net.UnixAddr{Name: l.path, Net: "unix"}
	}
	return l.Listener.Addr()
}

// Close removes the socket file first, so that a client gets "no such file" and not a
// connection that nobody answers.
func (l *limitedListener) Close() error {
	l.once.Do(func() {
		close(l.done)
		if l.path != "" {
			_ = unix.Unlink(l.path)
		}
	})
	return l.Listener.Close()
}

// limitedConn gives its slot back once.
type limitedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}
