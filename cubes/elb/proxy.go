// SPDX-License-Identifier: Apache-2.0

package elb

// What the configuration of HAProxy says: which frontends are taken over, as which services, and what prevents others.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/feedback"
	"github.com/polycube/polycube/haproxy"
	"github.com/polycube/polycube/health"
)

const (
	// readEvery is how often files are looked at.
	readEvery = time.Second
	// mostBytes is how long all files may be together.
	mostBytes = 8 << 20
	// mostPorts is how many ports an address may have: each is a service.
	mostPorts = 64
	// mostServices is how many services frontends may have together.
	mostServices = maxServices / 2
)

// proxy is what is known of HAProxy.
type proxy struct {
	files     []haproxy.File
	looked    time.Time
	frontends []*frontend
	err       error
}

// frontend is one of HAProxy.
type frontend struct {
	*haproxy.Frontend
	services []*wanted
	// own are reasons of this cube.
	own []haproxy.Reason
}

// taken reports whether a frontend is taken over.
func (f *frontend) taken() bool { return len(f.Reasons) == 0 && len(f.own) == 0 }

// prevent adds a reason.
func (f *frontend) prevent(format string, args ...any) {
	f.own = append(f.own, haproxy.Reason{Position: f.Position, Text: fmt.Sprintf(format, args...)})
}

// read reads the files again if that is due, and reports whether they have changed.
func (p *proxy) read(names []string, now bool) (changed bool) {
	if !now && (time.Since(p.looked) < readEvery || len(names) == 0) {
		return false
	}
	next := proxy{looked: time.Now()}
	left := int64(mostBytes)
	for _, name := range names {
		text, err := readFile(name, left)
		if err != nil {
			next.err = err
			next.files = nil
			break
		}
		left -= int64(len(text))
		next.files = append(next.files, haproxy.File{Name: name, Text: text})
	}
	same := slices.EqualFunc(p.files, next.files, func(a, b haproxy.File) bool { return a.Name == b.Name && bytes.Equal(a.Text, b.Text) })
	if same && next.err == nil && (p.err == nil || len(next.files) > 0) {
		p.looked = next.looked
		return false
	}
	if next.err != nil && p.err != nil && next.err.Error() == p.err.Error() {
		p.looked = next.looked
		return false
	}
	if next.err == nil {
		next.frontends, next.err = analyse(next.files)
	}
	*p = next
	return true
}

// readFile reads a file of limited length. Nothing else is opened: a pipe could keep the daemon waiting.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: the files are larger than %d bytes together", name, mostBytes)
	}
	return text, err
}

// errForeign is for files of something else: errors must not quote them, since whoever may configure a cube could read any file.
var errForeign = errors.New("not an HAProxy configuration, which begins with a section")

// analyse finds the frontends.
func analyse(files []haproxy.File) ([]*frontend, error) {
	for _, f := range files {
		if !haproxy.IsConfig(f.Text) {
			return nil, fmt.Errorf("%s: %w", f.Name, errForeign)
		}
	}
	conf, err := haproxy.Parse(files...)
	if err != nil {
		return nil, err
	}
	all, err := conf.Analyse()
	if err != nil {
		return nil, err
	}
	var out []*frontend
	for _, one := range all {
		out = append(out, &frontend{Frontend: one})
	}
	return out, nil
}

// take says as which services a frontend can be taken over, or adds what prevents it.
func (f *frontend) take(r *running) {
	how, ok := map[string]Select{"ROUND_ROBIN": roundRobin, "LEAST_CONNECTIONS": leastConnections, "MAGLEV": maglev}[f.Balance]
	if !ok {
		f.prevent("balance: %s is not supported", f.Balance)
	}
	check, err := f.healthCheck()
	if err != nil {
		f.prevent("%s", err)
	}
	var agents *feedback.Config
	if f.Agents.Port != 0 {
		agents = agentCheck(f.Agents.Port, f.Agents.Interval)
	}
	for i := range f.Services {
		s := &f.Services[i]
		if ports := int(s.Ports.Last) - int(s.Ports.First) + 1; ports > mostPorts {
			f.prevent("%s has %d ports: at most %d are supported", s.VIP, ports, mostPorts)
			continue
		}
		for port := int(s.Ports.First); port <= int(s.Ports.Last); port++ {
			w := &wanted{
				id: balance.ServiceID{VIP: s.VIP, Port: uint16(port), Proto: balance.TCP}, how: how, check: check,
				idle: uint32((f.Idle + time.Second - 1) / time.Second), frontend: f.Name, backend: f.Backend, feedback: agents,
			}
			for _, one := range s.Servers {
				at := netip.AddrPortFrom(one.Addr, one.Port+uint16(port)-s.Ports.First)
				is := wantedServer{at: at, name: one.Name, weight: uint32(one.Weight), disabled: one.Disabled, agent: one.Agent}
				r.adjust(&is, f.Backend, agents != nil)
				w.servers = append(w.servers, is)
			}
			f.services = append(f.services, w)
		}
	}
}

// healthCheck returns the check of the servers of a frontend, whose target is a port at most.
func (f *frontend) healthCheck() (health.Check, error) {
	kind, ok := map[string]health.Kind{"NONE": health.None, "TCP": health.TCP, "HTTP": health.HTTP}[f.Check.Type]
	if !ok {
		return health.Check{}, fmt.Errorf("check: %s is not supported", f.Check.Type)
	}
	if kind == health.None {
		return health.Check{}, nil
	}
	c := health.Check{
		Kind: kind, Interval: f.Check.Interval, Timeout: min(f.Check.Timeout, f.Check.Interval), Rise: f.Check.Rise, Fall: f.Check.Fall,
		Method: f.Check.Method, Path: f.Check.Path, Host: f.Check.Host,
	}
	if f.Check.Port != 0 {
		c.Target = netip.AddrPortFrom(netip.Addr{}, f.Check.Port)
	}
	if f.Check.Status != "" {
		var is health.Statuses
		if err := is.UnmarshalJSON([]byte(strconv.Quote(f.Check.Status))); err != nil {
			return c, fmt.Errorf("http-check: %w", err)
		}
		c.Status = is
	}
	return c, nil
}

// choose adds the services of the frontends that are taken over to those that are configured.
func (p *proxy) choose(conf *Config, r *running, all map[balance.ServiceID]*wanted) {
	servers, services := 0, 0
	for _, w := range all {
		servers += len(w.servers)
	}
	for _, f := range p.frontends {
		f.own = nil
		f.services = nil
		if !f.taken() {
			continue
		}
		f.take(r)
		for _, w := range f.services {
			servers += len(w.servers)
			services++
			if all[w.id] != nil {
				f.prevent("service %s is configured in the cube", w.name())
			} else if err := conf.refuses(w); err != nil {
				f.prevent("%s", err)
			}
			if len(w.servers) > balance.MaxMembers {
				f.prevent("%d servers: at most %d are supported", len(w.servers), balance.MaxMembers)
			}
		}
		if servers > int(conf.MaxServers) {
			f.prevent("too many servers: max-servers is %d", conf.MaxServers)
		}
		if services > mostServices {
			f.prevent("frontends have more than %d addresses and ports", mostServices)
		}
		if !f.taken() {
			for _, w := range f.services {
				servers -= len(w.servers)
				services--
			}
			f.services = nil
			continue
		}
		for _, w := range f.services {
			all[w.id] = w
		}
	}
}
