// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// farmOf is a load balancer with many services of ten servers each.
type farmOf struct {
	*daemon
	name     string
	services int
	took     map[string][]time.Duration
	calls    int // of together
}

// newFarmOf makes it, a thousand services at a time.
func newFarmOf(d *daemon, name string, services int) *farmOf {
	f := &farmOf{d, name, services, map[string][]time.Duration{}, 0}
	d.Must(201, "POST", "/lbrp/"+name, `{"max-backends":131072,"ports":[{"name":"f","type":"FRONTEND"},{"name":"b","type":"BACKEND"}]}`)
	for from := 0; from < services; from += 1000 {
		var all []string
		for i := range min(1000, services-from) {
			all = append(all, f.service(from+i, 1))
		}
		d.Must(201, "POST", "/lbrp/"+name+"/service", "["+strings.Join(all, ",")+"]")
	}
	return f
}

// service is a service as in a body; its servers have a weight.
func (f *farmOf) service(i, weight int) string {
	return fmt.Sprintf(`{"vip":"10.1.%d.%d","vport":80,"proto":"TCP","backend":%s}`, i>>8, i&255, f.servers(i, weight))
}

func (f *farmOf) servers(i, weight int) string {
	var all []string
	for s := range 10 {
		all = append(all, fmt.Sprintf(`{"ip":"10.%d.%d.%d","port":8080,"weight":%d}`, 100+s, i>>8, i&255, weight))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// at is the path of a service, one of all by turns.
func (f *farmOf) at(i int) string {
	i = f.spread(i)
	return fmt.Sprintf("/lbrp/%s/service/10.1.%d.%d/80/TCP", f.name, i>>8, i&255)
}

func (f *farmOf) spread(i int) int { return i * 7919 % f.services }

func (f *farmOf) server(i int) string {
	n := f.spread(i)
	return fmt.Sprintf("%s/backend/10.%d.%d.%d/8080", f.at(i), 100+i%10, n>>8, n&255)
}

// timed makes a request and notes how long it takes.
func (f *farmOf) timed(what string, status int, method, path, body string) {
	f.t.Helper()
	begin := time.Now()
	f.Must(status, method, path, body)
	f.took[what] = append(f.took[what], time.Since(begin))
}

func (f *farmOf) median(what string) time.Duration {
	return slices.Sorted(slices.Values(f.took[what]))[len(f.took[what])/2]
}

// round makes one change of each kind.
func (f *farmOf) round(i int) {
	f.t.Helper()
	weight := 2 + i%60000
	f.timed("weight of a server", 201, "PATCH", f.server(i), fmt.Sprintf(`{"weight":%d}`, weight))
	f.timed("state of a server", 201, "PATCH", f.server(i), `{"admin-state":"DISABLED"}`)
	f.timed("a server more", 201, "POST", f.at(i)+"/backend/10.200.0.1/8080", `{}`)
	f.timed("a server less", 204, "DELETE", f.at(i)+"/backend/10.200.0.1/8080", "")
	f.timed("10 servers of a service", 201, "PATCH", f.at(i)+"/backend", f.servers(f.spread(i), weight+1))
	var some []string
	for s := range 10 {
		some = append(some, f.service(f.spread(10*i+s), weight+2))
	}
	f.timed("100 servers of 10 services", 201, "PATCH", "/lbrp/"+f.name, `{"service":[`+strings.Join(some, ",")+`]}`)
	f.timed("name of a service", 201, "PATCH", f.at(i), fmt.Sprintf(`{"name":"n%d"}`, i))
	f.timed("a service more", 201, "POST", "/lbrp/"+f.name+"/service/10.2.0.1/80/TCP", `{"backend":[{"ip":"10.0.2.11","port":80}]}`)
	f.timed("a service less", 204, "DELETE", "/lbrp/"+f.name+"/service/10.2.0.1/80/TCP", "")
}

// perSecond has several clients make requests, and returns how many a second they make.
func perSecond(clients, requests int, request func(i int)) float64 {
	var next atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range clients {
		all.Go(func() {
			for i := int(next.Add(1)); i <= requests; i = int(next.Add(1)) {
				request(i)
			}
		})
	}
	all.Wait()
	return float64(requests) / time.Since(begin).Seconds()
}

// together has several clients change weights, and returns how many changes a second they make.
func (f *farmOf) together(clients, changes int) float64 {
	f.t.Helper()
	f.calls++
	return perSecond(clients, changes, func(i int) {
		body := fmt.Sprintf(`{"weight":%d}`, 2+(i/100+f.calls)%50) // another one than the server has, also if it had several changes
		if status, text, err := f.Request("PATCH", f.server(i), body); err != nil || status != 201 {
			f.t.Errorf("%s: %d, %v: %s", body, status, err, text)
		}
	})
}

// reads has several clients read weights, and returns how many a second they read.
func (f *farmOf) reads(clients, requests int) float64 {
	f.t.Helper()
	return perSecond(clients, requests, func(i int) {
		if status, text, err := f.Request("GET", f.server(i)+"/weight", ""); err != nil || status != 200 {
			f.t.Errorf("%d, %v: %s", status, err, text)
		}
	})
}

// keepsUp fails the test unless 1,000 servers a second are changed, by 32 clients and by requests that change 100 servers each. On a
// machine that is too busy to answer many requests at all, it is a twelfth of the weights that can be read.
func (f *farmOf) keepsUp() {
	f.t.Helper()
	var reads, changes float64
	for range 4 {
		reads, changes = max(reads, f.reads(32, 1000)), max(changes, f.together(32, 1000))
	}
	batches := 100 / slices.Min(f.took["100 servers of 10 services"]).Seconds()
	want := min(1000, reads/12)
	f.t.Logf("32 clients: %.0f changes a second, and %.0f weights read; %.0f servers a second by changes of 100", changes, reads, batches)
	for what, is := range map[string]float64{"by 32 clients": changes, "100 at a time": batches} {
		if is < want {
			f.t.Errorf("%.0f servers a second are changed %s, want %.0f", is, what, want)
		}
	}
}

// TestTimedManyServicesChangeLikeFew compares changes of a load balancer with 10,000 services of ten servers with those of one
// with a hundred: a change of servers or services costs its own size.
func TestTimedManyServicesChangeLikeFew(t *testing.T) {
	d := newMachine(t).Start("--rate-limit", "0")
	small, large := newFarmOf(d, "small", 100), newFarmOf(d, "large", 10_000)
	for i := range 50 {
		small.round(i)
		large.round(i)
	}
	for _, what := range []string{"weight of a server", "state of a server", "a server more", "a server less",
		"10 servers of a service", "100 servers of 10 services", "name of a service", "a service more", "a service less"} {
		few, many := small.median(what), large.median(what)
		t.Logf("%-26s %8.2f ms, of 100 services %8.2f ms", what, many.Seconds()*1000, few.Seconds()*1000)
		if most := 3*few + 5*time.Millisecond; many > most {
			t.Errorf("%s: %v, at most %v", what, many, most)
		}
	}
	for _, clients := range []int{1, 2, 8, 32} {
		t.Logf("%2d clients: %5.0f changes a second, of 100 services %5.0f", clients, large.together(clients, 1000), small.together(clients, 1000))
	}
	large.keepsUp()
}
