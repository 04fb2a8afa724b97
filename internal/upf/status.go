// SPDX-License-Identifier: Apache-2.0

package upf

// Status of the program, for polycube-upf status and Prometheus.

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/polycube/polycube/internal/n4"
	"github.com/polycube/polycube/internal/sidecar"
)

// errAway: no server is active.
var errAway = errors.New("polycube-upf is waiting for its cube")

// status returns the status of the server.
func (p *program) status() (n4.Status, error) {
	server := p.serving()
	if server == nil {
		return n4.Status{}, errAway
	}
	return server.Status()
}

// leave has the server release its associations.
func (p *program) leave() error {
	server := p.serving()
	if server == nil {
		return errAway
	}
	return server.Leave()
}

// observed exposes the status, and metrics derived from it.
func (p *program) observed() *sidecar.Observed[n4.Status] {
	return &sidecar.Observed[n4.Status]{Status: p.status, Collect: collect, Commands: map[string]func() error{commandLeave: p.leave}}
}

// table prints a status as text.
func table(is n4.Status, to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "address\t%s\n", is.Address)
	fmt.Fprintf(w, "recovery\t%s\n", is.Recovery.Format(time.RFC3339))
	fmt.Fprintf(w, "sessions\t%d\n", is.Sessions)
	fmt.Fprintf(w, "device addresses\t%d\n", is.Addresses)
	fmt.Fprintf(w, "guaranteed kbit/s\t%d up, %d down\n", is.GuaranteedUp, is.GuaranteedDown)
	fmt.Fprintf(w, "pending requests\t%d\n", is.Pending)
	fmt.Fprintf(w, "malformed messages\t%d\n", is.Malformed)
	fmt.Fprintf(w, "strangers' messages\t%d\n", is.Strangers)
	fmt.Fprintln(w)
	fmt.Fprintln(w, "association\taddress\tstate\tsessions\tsince")
	for _, p := range is.Peers {
		state := "DOWN"
		if p.Up {
			state = "UP"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", p.Node, p.Address, state, p.Sessions, p.Since.Format(time.RFC3339))
	}
	return w.Flush()
}

var (
	metricSessions  = prometheus.NewDesc("polycube_upf_sessions", "Number of PFCP sessions.", nil, nil)
	metricAddresses = prometheus.NewDesc("polycube_upf_addresses", "Number of device addresses, allocated by the UPF or by the control plane function.", nil, nil)
	metricGBR       = prometheus.NewDesc("polycube_upf_guaranteed_bytes_per_second", "Sum of the guaranteed rates of all sessions.", []string{"direction"}, nil)
	metricUp        = prometheus.NewDesc("polycube_upf_association_up", "1 if the control plane function answers heartbeats.", []string{"node"}, nil)
	metricOf        = prometheus.NewDesc("polycube_upf_association_sessions", "Number of sessions of the control plane function.", []string{"node"}, nil)
	metricRequests  = prometheus.NewDesc("polycube_upf_requests_total", "Requests received, by the cause in the response; 0 if there was none.", []string{"message", "cause"}, nil)
	metricAsked     = prometheus.NewDesc("polycube_upf_own_requests_total", "Requests sent, by the cause in the response; 0 if there was no response, or it had no cause.", []string{"message", "cause"}, nil)
	metricOther     = prometheus.NewDesc("polycube_upf_messages_total", "Messages other than answered requests, by outcome.", []string{"outcome"}, nil)
)

// collect returns the metrics.
func collect(is n4.Status, to sidecar.Metrics) {
	to.Gauge(metricSessions, float64(is.Sessions))
	to.Gauge(metricAddresses, float64(is.Addresses))
	to.Gauge(metricGBR, float64(is.GuaranteedUp)*125, "up")
	to.Gauge(metricGBR, float64(is.GuaranteedDown)*125, "down")
	for _, p := range is.Peers {
		up := 0.0
		if p.Up {
			up = 1
		}
		to.Gauge(metricUp, up, p.Node)
		to.Gauge(metricOf, float64(p.Sessions), p.Node)
	}
	for _, m := range is.Requests {
		to.Counter(metricRequests, m.Count, m.Message, strconv.Itoa(int(m.Cause)))
	}
	for _, m := range is.Asked {
		to.Counter(metricAsked, m.Count, m.Message, strconv.Itoa(int(m.Cause)))
	}
	for outcome, n := range map[string]uint64{
		"repeated": is.Repeated, "malformed": is.Malformed, "stranger": is.Strangers, "unexpected": is.Unexpected, "lost": is.Lost, "unsent": is.Unsent, "panic": is.Panics,
	} {
		to.Counter(metricOther, n, outcome)
	}
}
