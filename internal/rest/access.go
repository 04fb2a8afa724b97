// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Who may do what. The Unix socket is for root and one group, known by the credentials
// that the kernel keeps for the peer. TCP is only ever loopback, where any local user and
// any web page in a local browser can connect: hence the checks of Host and Origin
// against DNS rebinding and cross-site requests, and a token for whatever writes.

// connKey is the context key of a connection's identity.
type connKey struct{}

// connInfo is what is known about a connection when it is accepted.
type connInfo struct {
	unix bool
	peer credentials
	// err is why the peer's credentials could not be read.
	err error
	// local is the address that a TCP client reached.
	local netip.AddrPort
}

// credentials are a Unix socket's peer as the kernel recorded it at connect.
type credentials struct {
	UID, GID uint32
	PID      int32
	Groups   []uint32
}

// identify is the server's ConnContext.
func identify(ctx context.Context, c net.Conn) context.Context {
	info := connInfo{}
	if l, ok := c.(*limitedConn); ok {
		c = l.Conn
	}
	switch c := c.(type) {
	case *net.UnixConn:
		info.unix = true
		info.peer, info.err = peerCredentials(c)
	default:
		info.local, info.err = netip.ParseAddrPort(c.LocalAddr().String())
	}
	return context.WithValue(ctx, connKey{}, info)
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

// allowed tells whether a peer is root, the daemon's own user, or in the group.
// group is negative when the system has no such group.
func (c credentials) allowed(group int) bool {
	if c.UID == 0 || int(c.UID) == os.Geteuid() {
		return true
	}
	if group < 0 {
		return false
	}
	return c.GID == uint32(group) || slices.Contains(c.Groups, uint32(group))
}

// authorize refuses a request that its connection has no right to make.
func (s *Server) authorize(r *http.Request) error {
	info, _ := r.Context().Value(connKey{}).(connInfo)
	if info.err != nil {
		return denied("the client of this connection cannot be identified: %v", info.err)
	}
	if info.unix {
		if !info.peer.allowed(s.group) {
			return denied("user %d may not use this socket: be root or a member of group %s", info.peer.UID, s.groupName)
		}
		return nil
	}
	if err := checkHost(r.Host, info.local); err != nil {
		return err
	}
	if err := checkOrigin(r); err != nil {
		return err
	}
	if readOnly(r.Method) || s.insecure {
		return nil
	}
	return s.checkToken(r)
}

// readOnly methods need no token.
func readOnly(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// checkHost accepts the names that loopback really has, with the port of the connection.
func checkHost(host string, local netip.AddrPort) error {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "80"
	}
	if port == strconv.Itoa(int(local.Port())) {
		if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
			return nil
		}
		if addr, err := netip.ParseAddr(name); err == nil && addr.Unmap().IsLoopback() {
			return nil
		}
	}
	return denied("host %s is not this daemon: use localhost:%d", clip(host), local.Port())
}

// checkOrigin refuses requests that a page of another site made a browser send.
func checkOrigin(r *http.Request) error {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
	default:
		return denied("a request from another site is refused (Sec-Fetch-Site: %s)", clip(site))
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" || !strings.EqualFold(u.Host, r.Host) {
			return denied("a request from origin %s is refused", clip(origin))
		}
	}
	return nil
}

// checkToken compares the bearer token in constant time.
func (s *Server) checkToken(r *http.Request) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && s.token != "" &&
		subtle.ConstantTimeCompare([]byte(strings.TrimSpace(token)), []byte(s.token)) == 1 {
		return nil
	}
	return &problem{Status: http.StatusUnauthorized, Tag: tagAccessDenied,
		Message: "changes over TCP need the daemon's token (Authorization: Bearer, from the file `token` in its run directory); " +
			"the Unix socket needs none"}
}

func denied(format string, args ...any) *problem {
	return &problem{Status: http.StatusForbidden, Tag: tagAccessDenied, Message: fmt.Sprintf(format, args...)}
}
