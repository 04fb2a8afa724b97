// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/internal/tally"
)

// Requests counts API requests. Labels must not grow with what clients send: methods are those of HTTP, paths are
// patterns, and above a number of combinations all are counted as one.
type Requests struct {
	inFlight atomic.Int64
	denied   tally.Counters
	dropped  tally.Counters

	mu   sync.Mutex
	took map[request]*tally.Histogram
}

// request is one combination of labels.
type request struct {
	method, route string
	status        int
}

// maxRequests limits the combinations; there are about forty routes.
const maxRequests = 500

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// requestBounds suit reads of a millisecond and changes of a second.
var requestBounds = []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10}

// Begin counts a request that is in progress until the returned function is called.
func (r *Requests) Begin() (end func()) {
	r.inFlight.Add(1)
	return func() { r.inFlight.Add(-1) }
}

// InFlight is the number of requests in progress.
func (r *Requests) InFlight() int64 { return r.inFlight.Load() }

// Done counts a finished request. route is the pattern of its path, "" for a path outside the API.
func (r *Requests) Done(method, route string, status int, took time.Duration) {
	if !slices.Contains(methods, method) {
		method = "other"
	}
	if route == "" {
		route = "other"
	}
	r.histogram(request{method, route, status}).Observe(took.Seconds())
}

func (r *Requests) histogram(key request) *tally.Histogram {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.took == nil {
		r.took = map[request]*tally.Histogram{}
	}
	if h := r.took[key]; h != nil {
		return h
	}
	if len(r.took) >= maxRequests {
		key = request{"other", "other", 0}
		if h := r.took[key]; h != nil {
			return h
		}
	}
	h := tally.NewHistogram(requestBounds...)
	r.took[key] = h
	return h
}

// Denied counts a request that was refused before processing.
func (r *Requests) Denied(reason string) { r.denied.Add(reason) }

// Dropped counts a connection that was closed by a limit.
func (r *Requests) Dropped(reason string) { r.dropped.Add(reason) }

func (r *Requests) write(enc *encoder) {
	r.mu.Lock()
	took := maps.Clone(r.took)
	r.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(took), func(a, b request) int {
		return cmp.Or(cmp.Compare(a.method, b.method), cmp.Compare(a.route, b.route), cmp.Compare(a.status, b.status))
	})
	for _, k := range keys {
		enc.histogram(index["polycube_api_request_duration_seconds"], took[k].Snapshot(), k.method, k.route, strconv.Itoa(k.status))
	}
	enc.put("polycube_api_requests_in_flight", float64(r.inFlight.Load()))
	enc.counts("polycube_api_denied_total", r.denied.Snapshot())
	enc.counts("polycube_api_connections_dropped_total", r.dropped.Snapshot())
}
