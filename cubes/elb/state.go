// SPDX-License-Identifier: Apache-2.0

package elb

// State: sessions, whether HAProxy's frontends are taken over, and all servers with their traffic here and through HAProxy.

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/session"
	"github.com/polycube/polycube/feedback"
	"github.com/polycube/polycube/haproxy"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
)

// view has the structure of the model.
type view struct {
	HAProxy  *proxyView     `json:"haproxy,omitempty"`
	Sessions *sessionsView  `json:"sessions,omitempty"`
	Session  []session.View `json:"session,omitempty"`
	Frontend []frontendView `json:"frontend,omitempty"`
	Report   []lineView     `json:"report,omitempty"`
	Server   []serverView   `json:"server,omitempty"`
}

type proxyView struct {
	Error      string `json:"error,omitempty"`
	StatsError string `json:"stats-error,omitempty"`
}

type sessionsView struct {
	Active    uint32 `json:"active"`
	Capacity  uint32 `json:"capacity"`
	Opened    uint64 `json:"opened"`
	Errors    uint64 `json:"errors"`
	NoServer  uint64 `json:"no-server"`
	Connected uint64 `json:"connected"`
	NoPort    uint64 `json:"no-port"`
	Undecided uint64 `json:"undecided"`
	NoOutput  uint64 `json:"no-output"`
	MTU       uint64 `json:"mtu"`
	Full      uint64 `json:"full"`
}

type frontendView struct {
	Name      string `json:"name"`
	TakenOver bool   `json:"taken-over"`
	Backend   string `json:"backend,omitempty"`
	Services  int    `json:"services"`
}

type lineView struct {
	Frontend string `json:"frontend"`
	Number   int    `json:"number"`
	At       string `json:"at"`
	Effect   string `json:"effect"`
	Text     string `json:"text"`
}

type serverView struct {
	VIP      netip.Addr `json:"vip"`
	VPort    uint16     `json:"vport"`
	IP       netip.Addr `json:"ip"`
	Port     uint16     `json:"port"`
	Frontend string     `json:"frontend,omitempty"`
	Name     string     `json:"name,omitempty"`
	State    state      `json:"state"`
	Reason   string     `json:"reason,omitempty"`
	Weight   uint32     `json:"weight"`
	Active   uint32     `json:"active"`
	Opened   uint64     `json:"opened"`
	inet.Count
	ReplyPackets uint64         `json:"reply-packets"`
	ReplyBytes   uint64         `json:"reply-bytes"`
	Sessions     *uint64        `json:"haproxy-sessions,omitempty"`
	Sent         *uint64        `json:"haproxy-bytes,omitempty"`
	Received     *uint64        `json:"haproxy-reply-bytes,omitempty"`
	Health       *health.View   `json:"health,omitempty"`
	Feedback     *feedback.View `json:"feedback,omitempty"`
}

// state returns the state.
func (b *balancer) state(ctx context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s view
	var err error
	var there haproxy.Statistics
	var failed error
	if b.conf.HAProxy.StatsSocket != "" && (wanted("server") || wanted("haproxy")) {
		there, failed = haproxy.ReadStatistics(ctx, b.conf.HAProxy.StatsSocket)
	}
	if wanted("haproxy") {
		s.HAProxy = &proxyView{}
		if b.proxy.err != nil {
			s.HAProxy.Error = b.proxy.err.Error()
		}
		if failed == nil {
			failed = b.running.err
		}
		if failed != nil {
			s.HAProxy.StatsError = failed.Error()
		}
	}
	if wanted("sessions") {
		if s.Sessions, err = b.sessionsView(); err != nil {
			return nil, err
		}
	}
	if len(path) > 1 && path[0] == "session" { // others are in pages
		if is, ok := b.session(path[1:min(len(path), 5)]); ok {
			s.Session = []session.View{b.show(&is, balance.Now())}
		}
	}
	if wanted("frontend") {
		for _, f := range b.proxy.frontends {
			s.Frontend = append(s.Frontend, frontendView{f.Name, f.taken(), f.Backend, len(f.services)})
		}
	}
	if wanted("report") {
		s.Report = b.proxy.report()
	}
	if wanted("server") {
		s.Server, err = b.serverViews(there)
	}
	return s, err
}

// sessionsView returns the container `sessions`.
func (b *balancer) sessionsView() (*sessionsView, error) {
	is := &sessionsView{Active: b.sweep.Last.Total, Capacity: b.conf.MaxSessions}
	for name, to := range map[string]*uint64{
		"opened": &is.Opened, "errors": &is.Errors, "no-server": &is.NoServer, "connected": &is.Connected, "no-port": &is.NoPort,
		"undecided": &is.Undecided, "no-output": &is.NoOutput, "mtu": &is.MTU, "full": &is.Full,
	} {
		n, err := b.counters.Sum(name)
		if err != nil {
			return nil, err
		}
		*to = n
	}
	return is, nil
}

// report returns the lines that affect a takeover.
func (p *proxy) report() (out []lineView) {
	for _, f := range p.frontends {
		n := 0
		add := func(effect string, reasons []haproxy.Reason) {
			for _, r := range reasons {
				n++
				out = append(out, lineView{f.Name, n, r.Position.String(), effect, r.Text})
			}
		}
		add("PREVENTS", f.Reasons)
		add("PREVENTS", f.own)
		add("NOTE", f.Notes)
	}
	return out
}

// serverViews returns the list `server`.
func (b *balancer) serverViews(there haproxy.Statistics) (out []serverView, err error) {
	servers, err := b.maps.servers.Values()
	if err != nil {
		return nil, err
	}
	for k, m := range b.members {
		all, _, err := b.maps.serverCounts.Get(m.number)
		if err != nil {
			return nil, err
		}
		is := serverView{
			VIP: k.id.VIP, VPort: k.id.Port, IP: k.at.Addr(), Port: k.at.Port(), Frontend: m.frontend, Name: m.name, State: m.state, Reason: m.reason,
			Weight: m.weight, Feedback: b.loads.view(m), Active: atomic.LoadUint32(&servers[m.number].Sessions),
		}
		for i := range all {
			is.Opened += all[i].Opened
			is.Packets += all[i].To.Packets
			is.Bytes += all[i].To.Bytes
			is.ReplyPackets += all[i].From.Packets
			is.ReplyBytes += all[i].From.Bytes
		}
		if h, ok := b.checks.state(m); ok {
			v := h.View()
			is.Health = &v
		}
		if n, ok := there[haproxy.ServerName{Backend: m.backend, Server: m.name}]; ok && m.backend != "" {
			is.Sessions, is.Sent, is.Received = &n.Sessions, &n.Sent, &n.Received
		}
		out = append(out, is)
	}
	slices.SortFunc(out, func(a, b serverView) int {
		return cmp.Or(a.VIP.Compare(b.VIP), cmp.Compare(a.VPort, b.VPort), a.IP.Compare(b.IP), cmp.Compare(a.Port, b.Port))
	})
	return out, nil
}
