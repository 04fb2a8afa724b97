// SPDX-License-Identifier: Apache-2.0

package elb

// How the running HAProxy uses its servers: weights, maintenance and draining that administrators set over its socket. HAProxy is asked
// every second. While it does not answer, as when it was killed, the last answer holds.

import (
	"context"
	"maps"
	"time"

	"github.com/polycube/polycube/haproxy"
)

// runningEvery is how often HAProxy is queried.
const runningEvery = time.Second

// running is the last answer of the HAProxy at a socket.
type running struct {
	socket string
	is     map[haproxy.ServerName]haproxy.Running
	err    error
	asked  time.Time
	// asks says that a query is in progress.
	asks bool
}

// use queries a new socket at once: services must not use a server in maintenance for the first second.
func (r *running) use(socket string) {
	if r.socket == socket {
		return
	}
	*r = running{socket: socket}
	if socket != "" {
		r.is, r.err = haproxy.ReadRunning(context.Background(), socket) // it has a timeout
		r.asked = time.Now()
	}
}

// take stores an answer, and reports whether it differs from the last one.
func (r *running) take(is map[haproxy.ServerName]haproxy.Running, err error) (changed bool) {
	if r.err = err; err != nil || maps.Equal(r.is, is) {
		return false
	}
	r.is = is
	return true
}

// ask queries HAProxy if that is due. The cube does not wait for the answer, as HAProxy may hang.
func (b *balancer) ask() {
	r := &b.running
	if r.socket == "" || r.asks || time.Since(r.asked) < runningEvery {
		return
	}
	r.asks, r.asked = true, time.Now()
	socket := r.socket
	go func() {
		is, err := haproxy.ReadRunning(context.Background(), socket) // it has a timeout
		_ = b.env.Do(func() { b.answered(socket, is, err) })         // fails if the cube is closed
	}()
}

// answered handles the answer of the HAProxy at a socket.
func (b *balancer) answered(socket string, is map[haproxy.ServerName]haproxy.Running, err error) {
	r := &b.running
	if r.socket != socket { // another one by now, which has been asked
		return
	}
	r.asks = false
	if err != nil && r.err == nil {
		b.env.Logger().Warn("HAProxy does not answer: its last answer still applies", "error", err)
	}
	if r.take(is, err) {
		b.applyOrGiveBack()
	}
}

// adjust applies the running HAProxy's state to a server of a frontend. If an agent reports the weight, the cube queries the agent itself.
func (r *running) adjust(s *wantedServer, backend string, agents bool) {
	is, ok := r.is[haproxy.ServerName{Backend: backend, Server: s.name}]
	if !ok { // not in the running configuration, or it has never answered
		return
	}
	if s.disabled = is.Maintenance; s.disabled {
		s.why = "in maintenance in HAProxy"
	}
	if s.draining = is.Draining; s.draining {
		s.why = "draining in HAProxy"
	}
	if weight := uint32(is.Weight); !agents && weight != s.weight {
		if s.weight = weight; weight == 0 {
			s.why = "weight set to 0 in HAProxy"
		}
	}
}
