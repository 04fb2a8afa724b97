// SPDX-License-Identifier: Apache-2.0

package synflood

// What the cube shows.

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/polycube/polycube/cube"
)

// Counters of /proc/net/snmp.
const (
	ipReceived  = "IpInReceives"
	ipDelivered = "IpInDelivers"
	tcpReceived = "TcpInSegs"
	tcpSent     = "TcpOutSegs"
	tcpFailed   = "TcpAttemptFails"
	tcpResets   = "TcpOutRsts"
)

// statistics is the container `stats`.
type statistics struct {
	AttemptFails  string `json:"tcpattemptfails"`
	OutRsts       string `json:"tcpoutrsts"`
	DeliverRatio  string `json:"deliverratio"`
	ResponseRatio string `json:"responseratio"`
	LastUpdate    int64  `json:"lastupdate"`

	was map[string]uint64
}

// update takes a new sample. The ratios are those since the one before, and at first since the start of the namespace.
func (s *statistics) update(is map[string]uint64, now time.Time) {
	s.AttemptFails = strconv.FormatUint(is[tcpFailed], 10)
	s.OutRsts = strconv.FormatUint(is[tcpResets], 10)
	s.DeliverRatio = s.ratio(is, ipDelivered, ipReceived)
	s.ResponseRatio = s.ratio(is, tcpSent, tcpReceived)
	s.LastUpdate = now.UnixMilli()
	s.was = is
}

// ratio is the ratio of the increase of two counters.
func (s *statistics) ratio(is map[string]uint64, part, whole string) string {
	received := is[whole] - s.was[whole]
	if received == 0 {
		return "1.000"
	}
	return fmt.Sprintf("%.3f", float64(is[part]-s.was[part])/float64(received))
}

// Values of the leaf cookies/status.
const (
	statusOff         = "OFF"
	statusIdle        = "IDLE"
	statusActive      = "ACTIVE"
	statusUnavailable = "UNAVAILABLE"
)

// status is whether SYNs are answered.
type status struct {
	Status string `json:"status"`
	Reason string `json:"status-reason,omitempty"`
}

// status reads whether there is a flood from the map that the programs write.
func (s *synflood) status() (status, error) {
	reason := s.facts.unavailable()
	if !onNetdev(s.netdev()) {
		reason = "the cube is not on a network interface: attach it to the one where the clients' packets arrive"
	}
	switch {
	case s.config.Protection == Off:
		return status{Status: statusOff}, nil
	case reason != "":
		return status{statusUnavailable, reason}, nil
	case s.config.Protection == On:
		return status{Status: statusActive}, nil
	}
	p, _, err := s.pace.Get(0)
	if err != nil {
		return status{}, err
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return status{}, err
	}
	if now < p.Until {
		return status{Status: statusActive}, nil
	}
	return status{Status: statusIdle}, nil
}

// cookies is the container `cookies`.
type cookies struct {
	status
	Options     bool  `json:"options"`
	WindowScale uint8 `json:"window-scale"`
}

// state returns the status, the counters and the statistics.
func (s *synflood) state(_ context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	out := map[string]any{}
	if wanted("cookies") && s.config != nil {
		is, err := s.status()
		if err != nil {
			return nil, err
		}
		out["cookies"] = cookies{is, s.facts.options()&allowTimestamps != 0, s.config.windowScale(s.facts)}
	}
	if wanted("counters") {
		n, err := s.counts()
		if err != nil {
			return nil, err
		}
		out["counters"] = n
	}
	if wanted("stats") && s.stats.LastUpdate != 0 {
		out["stats"] = s.stats
	}
	return out, nil
}

// counts are the counters by the names of their leaves.
func (s *synflood) counts() (map[string]uint64, error) {
	set := counters.In(s.env, "counters")
	out := map[string]uint64{}
	for _, name := range []string{
		"syns", "cookies-sent", "cookies-valid", "cookies-invalid", "passed", "unavailable", "forward-dropped",
	} {
		n, err := set.Sum(name)
		if err != nil {
			return nil, err
		}
		out[name] = n
	}
	return out, nil
}
