// SPDX-License-Identifier: Apache-2.0

package evnf

// The client of the web service, wrk, and the CPU time of all that takes part.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

// wrkScript prints the figures of a run, as wrk's own report rounds them.
const wrkScript = `done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('\n{"requests":%d,"us":%d,"mean":%.3f,"median":%d,"failed":[%d,%d,%d,%d,%d]}\n', summary.requests, summary.duration,
    latency.mean, latency:percentile(50), e.connect, e.read, e.write, e.status, e.timeout))
end
`

// wrkReport is what the script prints: times are in µs.
type wrkReport struct {
	Requests int     `json:"requests"`
	Took     float64 `json:"us"`
	Mean     float64 `json:"mean"`
	Median   float64 `json:"median"`
	// Failed is how often it could not connect, read or write, and how many answers had an error or came late.
	Failed [5]int `json:"failed"`
}

// readWrk finds the report of a load in wrk's output: it is the last line.
func readWrk(out []byte, l load) (r wrkReport, err error) {
	start := len(out) - 1
	for start > 0 && out[start-1] != '\n' {
		start--
	}
	if start < 0 {
		start = 0
	}
	if err := json.Unmarshal(out[start:], &r); err != nil {
		return r, fmt.Errorf("report of wrk: %w: %.500s", err, out)
	}
	failed := r.Failed
	if l.each && failed[1] <= 1+r.Requests/1000 {
		failed[1] = 0 // see reset
	}
	if failed != [5]int{} || r.Requests <= 0 || r.Took <= 0 {
		return r, fmt.Errorf("%w: %d requests in %.0f µs, failed %v", contest.ErrLost, r.Requests, r.Took, r.Failed)
	}
	return r, nil
}

// reset says why a few new connections may fail to read, also without any function in between. When the last segment of a handshake
// arrives, Linux takes the entry of the handshake out of its table of sockets, and then puts that of the connection in (6.18:
// inet_ehash_insert). The next segment, on another CPU, may find neither: it is answered by the socket that listens, with a RST. The
// kernel's tracepoints showed one with the reason TCP_FLAGS in the microseconds in which the other CPU made the connection, on a
// connection between HAProxy and nginx, in one of some hundred runs of thousands of connections.
const reset = "Of a thousand new connections one may fail: Linux resets a connection whose first segment arrives, on another CPU, while it is being made."

// load is requests of a client.
type load struct {
	connections int
	each        bool // a connection for each request
	seconds     int
}

// request sends them, and returns the CPU time of wrk as well.
func (s *site) request(l load) (r wrkReport, ns int64, err error) {
	path, err := exec.LookPath("wrk")
	if err != nil {
		return r, 0, fmt.Errorf("%w: apt-get install wrk", err)
	}
	script := filepath.Join(s.dir, "report.lua")
	if err := os.WriteFile(script, []byte(wrkScript), 0o600); err != nil {
		return r, 0, fmt.Errorf("wrk: %w", err)
	}
	length := fmt.Sprintf("%ds", l.seconds)
	args := []string{"-k", "10", strconv.Itoa(l.seconds + 20), path, "-t1", "-c" + strconv.Itoa(l.connections), "-d" + length, "--timeout", "5s", "-s", script}
	if l.each {
		args = append(args, "-H", "Connection: close")
	}
	cmd := s.client.Command("timeout", append(args, "http://"+s.to.String()+"/")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return r, 0, fmt.Errorf("wrk: %w: %.500s", err, out)
	}
	r, err = readWrk(out, l)
	return r, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Nanoseconds(), err
}

// spent is CPU time in ns.
type spent struct {
	// all is that of servers, functions, daemons and of the kernel.
	all int64
	// proxy is the time of HAProxy's process; firewall and balancer are those of the programs on the machines, while the kernel
	// counts it, and of their daemons. On one machine, all is the balancer's.
	proxy, firewall, balancer int64
}

// functions is the time of all functions.
func (t spent) functions() int64 { return t.proxy + t.firewall + t.balancer }

// since is the time that was spent after another one.
func (t spent) since(o spent) spent {
	return spent{t.all - o.all, t.proxy - o.proxy, t.firewall - o.firewall, t.balancer - o.balancer}
}

// spent reads what was spent so far.
func (s *site) spent() (t spent, err error) {
	if t.all, err = lab.SoftirqTime(); err != nil {
		return t, err
	}
	for _, pid := range s.servers {
		ns, err := lab.ProcessTime(pid)
		if err != nil {
			return t, err
		}
		t.all += ns
	}
	if s.haproxy != 0 {
		if t.proxy, err = lab.ProcessTime(s.haproxy); err != nil {
			return t, err
		}
		t.all += t.proxy
	}
	if s.fast == nil {
		return t, nil
	}
	for i, m := range s.fast.machines {
		daemon, programs, err := m.spent()
		if err != nil {
			return t, err
		}
		t.all += daemon // programs run in the time of others
		if i == len(s.fast.machines)-1 {
			t.balancer = daemon + programs
		} else {
			t.firewall = daemon + programs
		}
	}
	return t, nil
}

// measured is what a load took.
type measured struct {
	wrkReport
	spent
}

// measure sends a load, and makes sure that it takes the way that is measured.
func (s *site) measure(l load) (m measured, err error) {
	seen, err := s.passed()
	if err != nil {
		return m, err
	}
	before, err := s.spent()
	if err != nil {
		return m, err
	}
	r, ns, err := s.request(l)
	if err != nil {
		return m, err
	}
	after, err := s.spent()
	if err != nil {
		return m, err
	}
	m = measured{r, after.since(before)}
	m.all += ns
	return m, s.took(seen, l, r.Requests)
}
