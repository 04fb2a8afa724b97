// SPDX-License-Identifier: Apache-2.0

package front

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/rest/message"
)

// Access control. The Unix sockets are for root and two groups, identified by the peer credentials of the kernel. Over
// plain TCP, which is only ever loopback, any local user can connect and read; a token grants more rights. Over TLS, a
// certificate identifies the client. Web pages in a browser on the machine can also reach TCP, so Host, Origin and
// media type are checked against DNS rebinding and cross-site requests.

// TokenRoles knows the role of a token; None for an unknown one.
type TokenRoles interface {
	Role(token string) access.Role
}

// Caller is the sender of a request.
type Caller struct {
	role access.Role
	// who and from are for people: the user, and where the request arrived.
	who, from   string
	certificate string
	// more says how to get a role with more rights.
	more string
	// anonymous callers presented nothing.
	anonymous bool
	// Client is the key that requests are counted by; requests of trusted callers are not counted.
	Client  string
	Trusted bool
}

type callerKey struct{}

// CallerOf returns the sender of a request.
func CallerOf(r *http.Request) Caller {
	c, _ := r.Context().Value(callerKey{}).(Caller)
	return c
}

// allowed returns the role of a peer of the Unix socket. Groups are negative if the system has no such group.
func (c credentials) allowed(admins, readers int) access.Role {
	member := func(group int) bool {
		return group >= 0 && (c.GID == uint32(group) || slices.Contains(c.Groups, uint32(group)))
	}
	switch {
	case c.owner(), member(admins):
		return access.Admin
	case member(readers):
		return access.Reader
	}
	return access.None
}

// owner reports whether a peer is root or the daemon's own user.
func (c credentials) owner() bool { return c.UID == 0 || int(c.UID) == os.Geteuid() }

// identify identifies the sender of a request. If it fails, it also returns what is known about the caller.
func (f *Front) identify(r *http.Request) (Caller, error) {
	info, ok := r.Context().Value(connKey{}).(*connInfo)
	if !ok || info.err != nil {
		c := Caller{who: "unknown", from: r.RemoteAddr, Client: r.RemoteAddr}
		return c, message.Denied("the client of this connection cannot be identified")
	}
	var c Caller
	var err error
	switch {
	case info.unix:
		c, err = f.identifyPeer(info)
	case r.TLS != nil:
		c, err = f.identifyCertificate(r, info)
	default:
		c, err = f.identifyLocal(r, info)
	}
	if err == nil {
		err = f.identifyToken(r, &c)
	}
	if info.readOnly && c.role > access.Reader {
		c.role, c.more = access.Reader, "this socket is read-only for every user: use the other one"
	}
	return c, err
}

func (f *Front) identifyPeer(info *connInfo) (Caller, error) {
	c := Caller{role: info.peer.allowed(f.group, f.readGroup), who: info.user, from: fmt.Sprintf("pid %d", info.peer.PID),
		Client: fmt.Sprintf("uid %d", info.peer.UID), Trusted: info.peer.owner(),
		more: "run as root, or join group " + f.groupName}
	if c.role == access.None {
		return c, message.Denied("user %d may not use this socket: run as root, or join group %s (group %s for read-only access)", info.peer.UID, f.groupName, f.readGroupName)
	}
	return c, nil
}

// identifyCertificate is for TLS. The certificate was accepted when the connection was made, and must still be
// accepted.
func (f *Front) identifyCertificate(r *http.Request, info *connInfo) (Caller, error) {
	p, err := info.certified(f.tls, r.TLS.PeerCertificates)
	c := Caller{role: p.Role, who: p.Subject, from: info.remote, certificate: p.Fingerprint, Client: p.Fingerprint,
		more: "the certificate must be one of --cert-admins, or in the directory admin of --cert-whitelist"}
	if err != nil {
		c.role = access.None
		return c, message.Denied("%v", err)
	}
	if err := f.checkCertifiedHost(r.Host); err != nil {
		return c, err
	}
	return c, checkOrigin(r, "https")
}

// identifyLocal is for plain HTTP on loopback.
func (f *Front) identifyLocal(r *http.Request, info *connInfo) (Caller, error) {
	c := Caller{role: access.Reader, who: "anonymous", from: info.remote, anonymous: true, Client: info.client,
		more: "changes over TCP require the daemon's token (Authorization: Bearer, from the file `token` in its run directory); the Unix socket needs none"}
	switch {
	case f.insecure:
		c.role = access.Admin
	case f.requireToken:
		c.role = access.None
		c.more = "this daemon requires its token for every request over TCP (Authorization: Bearer, from the file `token` or `token-read` in its run directory)"
	}
	if err := checkHost(r.Host, info.local); err != nil {
		return c, err
	}
	return c, checkOrigin(r, "http")
}

// identifyToken returns the role of the presented token. An unknown token is refused even if the caller needs none,
// because the caller relies on it.
func (f *Front) identifyToken(r *http.Request, c *Caller) error {
	headers := r.Header.Values("Authorization")
	switch {
	case len(headers) > 1:
		return message.BadPath("the request has %d Authorization headers: send one, because a proxy may have checked another one", len(headers))
	case len(headers) == 0 || headers[0] == "":
		return nil
	}
	header := headers[0]
	scheme, token, _ := strings.Cut(header, " ")
	role := access.None
	if strings.EqualFold(scheme, "Bearer") && f.tokens != nil {
		role = f.tokens.Role(strings.TrimSpace(token))
	}
	if role == access.None {
		c.role = access.None
		return message.Unauthorized("the token is not the daemon's: it is in the file `token` in its run directory, and may have been replaced")
	}
	c.role, c.anonymous = role, false
	c.more = "this token is read-only: changes require the one in the file `token`"
	if c.certificate == "" {
		c.who, c.Client = role.String()+" token", role.String()+" token"
	} else {
		c.who += " with the " + role.String() + " token"
	}
	return nil
}

// Permit refuses a request that the caller's role does not allow.
func (c Caller) Permit(role access.Role) error {
	switch {
	case c.role >= role:
		return nil
	case c.anonymous:
		return message.Unauthorized("%s", c.more)
	}
	return message.Denied("this request requires the role %s, and %s has the role %s: %s", role, c.who, c.role, c.more)
}

// checkHost accepts the names of loopback, with the port of the connection.
func checkHost(host string, local netip.AddrPort) error {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "80"
	}
	if port == strconv.Itoa(int(local.Port())) && isLoopback(name) {
		return nil
	}
	return message.Denied("host %s is not this daemon: use localhost:%d", message.Clip(host), local.Port())
}

func isLoopback(name string) bool {
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// checkCertifiedHost accepts the names in the daemon's certificate, localhost, and addresses, which DNS cannot
// redirect.
func (f *Front) checkCertifiedHost(host string) error {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if _, err := netip.ParseAddr(name); err == nil || isLoopback(name) || f.tls.ServesHost(name) {
		return nil
	}
	return message.Denied("host %s is not in the daemon's certificate", message.Clip(host))
}

// Base is the prefix of links: scheme-relative on TCP, empty on a Unix socket, which has no authority.
func Base(r *http.Request) string {
	if r.TLS != nil {
		return "//" + r.Host // a name of the certificate, which the address may not be
	}
	if info, ok := r.Context().Value(connKey{}).(*connInfo); ok && info.local.IsValid() {
		return "//" + info.local.String()
	}
	return ""
}
