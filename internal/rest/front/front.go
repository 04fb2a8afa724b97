// SPDX-License-Identifier: Apache-2.0

package front

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/metrics"
	"github.com/polycube/polycube/internal/topology"
)

// Options configure access, and where accepted requests go.
type Options struct {
	// Log is for clients that are turned away.
	Log *slog.Logger
	// Tokens are the tokens of clients over TCP; nil refuses every token.
	Tokens TokenRoles
	// InsecureLoopback lets any local user write over TCP. RequireToken requires a token even for reading over plain
	// TCP.
	InsecureLoopback, RequireToken bool
	// TLS decides about client certificates; listeners of ListenTLS need it.
	TLS *access.TLS
	// Audit records changes and refusals; nil keeps no record.
	Audit *access.Audit
	// Rate is the maximum requests per second of one client: 0 is the default, negative is no limit.
	Rate int
	// Group is the system group with access to the Unix socket, ReadGroup the one with read access; "" stands for the
	// constants Group and ReadGroup.
	Group, ReadGroup string
	// Requests counts requests, by the Pattern of their path.
	Requests *metrics.Requests
	Pattern  func(*http.Request) string
	// Trial returns the change on trial, or nil.
	Trial func() *topology.Trial
	// Handle serves an accepted request, or returns an error, which Fail sends.
	Handle func(http.ResponseWriter, *http.Request) error
	Fail   func(http.ResponseWriter, *http.Request, error)
}

// Front is the first stage of every request. It owns the state of connections and clients.
type Front struct {
	log      *slog.Logger
	requests *metrics.Requests
	pattern  func(*http.Request) string
	handle   func(http.ResponseWriter, *http.Request) error
	fail     func(http.ResponseWriter, *http.Request, error)
	trial    func() *topology.Trial

	tokens                   TokenRoles
	insecure, requireToken   bool
	groupName, readGroupName string
	group, readGroup         int
	tls                      *access.TLS
	audit                    *access.Audit
	rate                     *access.Rate
	perSecond                float64
	// slots are for requests in progress. Admins have separate ones, so that slow readers do not block them, and root
	// at the Unix socket has separate ones, so that slow admins do not block it.
	slots, adminSlots, ownerSlots *access.Slots
	// open are the TLS connections, net.Conn to *connInfo.
	open sync.Map
	// reads are the read requests in progress, *readUnderWay.
	reads sync.Map
}

// New creates the front of a server.
func New(o Options) *Front {
	f := &Front{log: o.Log, requests: o.Requests, pattern: o.Pattern, handle: o.Handle, fail: o.Fail, trial: o.Trial,
		tokens: o.Tokens, insecure: o.InsecureLoopback, requireToken: o.RequireToken, tls: o.TLS, audit: o.Audit}
	f.slots, f.adminSlots = access.NewSlots(MaxRequests, MaxRequestsPerClient), access.NewSlots(MaxRequests, MaxRequestsPerClient)
	f.ownerSlots = access.NewSlots(MaxRequests, MaxRequests)
	f.groupName, f.readGroupName = cmp.Or(o.Group, Group), cmp.Or(o.ReadGroup, ReadGroup)
	f.group, f.readGroup = access.GroupID(f.groupName), access.GroupID(f.readGroupName)
	if f.perSecond = float64(cmp.Or(o.Rate, defaultRate)); f.perSecond > 0 {
		f.rate = access.NewRate(f.perSecond, burstFactor*f.perSecond)
	}
	return f
}

// OpenTLS is the number of TLS connections.
func (f *Front) OpenTLS() int { return size(&f.open) }

// Reading is the number of read requests in progress.
func (f *Front) Reading() int { return size(&f.reads) }

func size(m *sync.Map) int {
	n := 0
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// Watch makes a listener of this package report dropped connections. It is called before Accept.
func (f *Front) Watch(l net.Listener) {
	if r, ok := l.(interface{ reportTo(reports) }); ok {
		r.reportTo(reports{f.dropped, func(most int) {
			f.log.Warn("all connections of a listener are in use, new clients wait", "listener", l.Addr().String(), "connections", most)
		}})
	}
}
