// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/access"
)

// The identity of a connection, from accept to close.

// connKey is the context key of a connection's identity.
type connKey struct{}

// connInfo is what is known about a connection when it is accepted.
type connInfo struct {
	unix bool
	// readOnly connections can only read, whatever user is at the other end.
	readOnly bool
	peer     credentials
	// user names the peer for people.
	user string
	// err says why the peer could not be identified.
	err error
	// local is the address that a TCP client connected to, remote its own.
	local  netip.AddrPort
	remote string
	// client is the key that connections are counted by, "" for those that are not counted.
	client string

	mu sync.Mutex
	// cert is the TLS client, once it sent a request.
	cert *access.Peer
}

// credentials are those of a Unix socket's peer, as recorded by the kernel at connect.
type credentials struct {
	UID, GID uint32
	PID      int32
	Groups   []uint32
}

// errNoCredentials is for a connection that no listener of this package accepted.
var errNoCredentials = errors.New("the connection was not accepted by a listener of this package")

// identifyConn identifies the other end of a connection.
func identifyConn(c net.Conn, readOnly bool) *connInfo {
	info := &connInfo{readOnly: readOnly}
	if u, ok := c.(*net.UnixConn); ok {
		info.unix = true
		if info.peer, info.err = peerCredentials(u); info.err == nil && !info.peer.owner() {
			info.client = fmt.Sprintf("uid %d", info.peer.UID)
		}
		info.user = "root"
		if info.peer.UID != 0 {
			info.user = userName(passwdFile, info.peer.UID)
		}
		return info
	}
	info.local, info.err = netip.ParseAddrPort(c.LocalAddr().String())
	info.remote = c.RemoteAddr().String()
	if remote, err := netip.ParseAddrPort(info.remote); err == nil {
		info.client = clientNetwork(remote.Addr().Unmap())
	} else {
		info.err = errors.Join(info.err, err)
	}
	return info
}

// passwdFile is the file with the users of the machine. Users that only a directory server knows stay numbers: a query
// may need the network that is being configured.
const passwdFile = "/etc/passwd"

// userName is a user's number, with the name if known.
func userName(file string, uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	text, err := os.ReadFile(file)
	if err != nil {
		return "uid " + number
	}
	for line := range strings.Lines(string(text)) {
		// name:password:uid:…
		fields := strings.SplitN(line, ":", 4)
		if len(fields) == 4 && fields[2] == number && fields[0] != "" {
			return fields[0] + " (uid " + number + ")"
		}
	}
	return "uid " + number
}

// clientNetwork is the set of addresses of one client: the machine itself, or an IPv6 network, in which a host can use
// any number of addresses.
func clientNetwork(a netip.Addr) string {
	if a.IsLoopback() {
		return "loopback"
	}
	if a.Is6() {
		if p, err := a.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// peerCredentials reads SO_PEERCRED and SO_PEERGROUPS.
func peerCredentials(c *net.UnixConn) (credentials, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return credentials{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred credentials
	var inner error
	err = raw.Control(func(fd uintptr) {
		var u *unix.Ucred
		if u, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); inner != nil {
			return
		}
		cred = credentials{UID: u.Uid, GID: u.Gid, PID: u.Pid}
		cred.Groups, inner = peerGroups(int(fd))
	})
	if err == nil {
		err = inner
	}
	if err != nil {
		return credentials{}, fmt.Errorf("peer credentials: %w", err)
	}
	return cred, nil
}

// certified decides about a client's certificate for one request, and decides again when something changed since the
// last.
func (i *connInfo) certified(t *access.TLS, certs []*x509.Certificate) (access.Peer, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var p access.Peer
	var err error
	if i.cert == nil {
		p, err = t.Verify(certs)
	} else {
		p, err = t.Again(*i.cert)
	}
	i.cert = &p
	return p, err
}

// recheck is certified for a connection between requests, or during a long response. A client that has fewer rights
// than at the start is also refused.
func (i *connInfo) recheck(t *access.TLS) (access.Peer, error) {
	i.mu.Lock()
	before := i.cert
	i.mu.Unlock()
	if before == nil {
		return access.Peer{}, nil // its first request will be checked
	}
	p, err := i.certified(t, nil)
	if err == nil && p.Role < before.Role {
		err = fmt.Errorf("the client certificate %q now has the role %s, no longer %s", p.Subject, p.Role, before.Role)
	}
	return p, err
}

// Meet is the server's ConnContext.
func (f *Front) Meet(ctx context.Context, c net.Conn) context.Context {
	info := infoOf(c)
	if _, ok := c.(*tls.Conn); ok {
		f.open.Store(c, info)
	}
	return context.WithValue(ctx, connKey{}, info)
}

// infoOf returns the identity that the listener recorded.
func infoOf(c net.Conn) *connInfo {
	if l := limitedOf(c); l != nil {
		return l.info
	}
	return &connInfo{err: errNoCredentials}
}

// limitedOf is the connection that a listener of this package accepted, nil if none did.
func limitedOf(c net.Conn) *limitedConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	l, _ := c.(*limitedConn)
	return l
}

// Changed is the server's ConnState.
func (f *Front) Changed(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		f.open.Delete(c)
	}
	if l := limitedOf(c); l != nil {
		if reason := l.stateChanged(state); reason != "" {
			f.dropped(l.info, reason)
		}
	}
}

// Sweep ends connections and responses whose rights are gone: the token is no longer valid, or the certificate no
// longer accepted. It is called every second.
func (f *Front) Sweep() {
	f.sweepReads()
	if f.tls == nil {
		return
	}
	f.open.Range(func(key, value any) bool {
		conn, info := key.(net.Conn), value.(*connInfo)
		p, err := info.recheck(f.tls)
		if err == nil {
			return true
		}
		f.open.Delete(key)
		f.log.Warn("close a connection", "client", info.remote, "why", err)
		f.audit.Write(access.Record{Time: time.Now(), Who: p.Subject, Role: access.None.String(), From: info.remote, Certificate: p.Fingerprint,
			Refused: "connection closed: " + err.Error()})
		if t, ok := conn.(*tls.Conn); ok {
			conn = t.NetConn() // this client gets no response
		}
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			f.log.Debug("close a connection", "err", err)
		}
		return true
	})
}
