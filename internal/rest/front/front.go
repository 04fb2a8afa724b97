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
)

// Options say who may talk, and where a request that passes goes on.
type Options struct {
	// Log is where clients that are turned away are written.
	Log *slog.Logger
	// Tokens know what a client over TCP has to present; nil refuses every token.
	Tokens TokenRoles
	// InsecureLoopback lets anybody on the machine write over TCP, RequireToken lets nobody read over plain TCP without a
	// token.
	InsecureLoopback, RequireToken bool
	// TLS decides about clients' certificates; listeners of ListenTLS need it.
	TLS *access.TLS
	// Audit records changes and refusals; nil keeps no record.
	Audit *access.Audit
	// Rate is the number of requests a second of one client: 0 is the default, less is no bound.
	Rate int
	// Group is the system group that may use the Unix socket, ReadGroup the one that may read there; "" are the constants
	// Group and ReadGroup.
	Group, ReadGroup string
	// Requests counts what comes in, by the Pattern of its path.
	Requests *metrics.Requests
	Pattern  func(*http.Request) string
	// Handle answers a request that passed, or returns an error, which Fail answers.
	Handle func(http.ResponseWriter, *http.Request) error
	Fail   func(http.ResponseWriter, *http.Request, error)
}

// Front is what every request passes first. It owns what is known of connections and clients.
type Front struct {
	log      *slog.Logger
	requests *metrics.Requests
	pattern  func(*http.Request) string
	handle   func(http.ResponseWriter, *http.Request) error
	fail     func(http.ResponseWriter, *http.Request, error)

	tokens                   TokenRoles
	insecure, requireToken   bool
	groupName, readGroupName string
	group, readGroup         int
	tls                      *access.TLS
	audit                    *access.Audit
	rate                     *access.Rate
	perSecond                float64
	// slots are for requests under way; admins have their own, so that nobody who
	// reads slowly keeps them out, and so has root at the Unix socket, for admins who do.
	slots, adminSlots, ownerSlots *access.Slots
	// open are the connections of TLS, net.Conn to *connInfo.
	open sync.Map
	// reads are the requests under way that change nothing, *readUnderWay.
	reads sync.Map
}

// New makes the front of a server.
func New(o Options) *Front {
	f := &Front{log: o.Log, requests: o.Requests, pattern: o.Pattern, handle: o.Handle, fail: o.Fail,
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

// OpenTLS is the number of connections of TLS.
func (f *Front) OpenTLS() int { return size(&f.open) }

// Reading is the number of requests under way that change nothing.
func (f *Front) Reading() int { return size(&f.reads) }

func size(m *sync.Map) int {
	n := 0
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// Watch makes a listener of this package tell what its clients do not see of each other. It is called before Accept.
func (f *Front) Watch(l net.Listener) {
	if r, ok := l.(interface{ reportTo(reports) }); ok {
		r.reportTo(reports{f.dropped, func(most int) {
			f.log.Warn("all connections of a listener are in use, new clients wait", "listener", l.Addr().String(), "connections", most)
		}})
	}
}
