// SPDX-License-Identifier: Apache-2.0

package gtphandler

// State: what devices and sessions have sent and got, base stations, and messages.

import (
	"context"
	"errors"
	"net/netip"
	"strconv"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/inet"
)

// whole is how many devices have their counters in an answer about the whole cube, which monitoring may request often.
const whole = 10_000

// state has the structure of the model.
type state struct {
	Users    []userState       `json:"user-equipment,omitempty"`
	Sessions []sessionState    `json:"ethernet-session,omitempty"`
	Frames   *frames           `json:"frames,omitempty"`
	Stations []stationState    `json:"base-station,omitempty"`
	Messages *gtppath.Messages `json:"messages,omitempty"`
}

type userState struct {
	IP          netip.Addr `json:"ip"`
	UpPackets   uint64     `json:"uplink-packets"`
	UpBytes     uint64     `json:"uplink-bytes"`
	DownPackets uint64     `json:"downlink-packets"`
	DownBytes   uint64     `json:"downlink-bytes"`
}

type sessionState struct {
	TEID        uint32         `json:"teid"`
	UpPackets   uint64         `json:"uplink-packets"`
	UpBytes     uint64         `json:"uplink-bytes"`
	DownPackets uint64         `json:"downlink-packets"`
	DownBytes   uint64         `json:"downlink-bytes"`
	Learned     []learnedState `json:"learned-address,omitempty"`
}

type learnedState struct {
	Address inet.MAC `json:"address"`
	Age     uint32   `json:"age"`
}

type stationState struct {
	gtppath.State
	Users int `json:"user-equipment"`
}

func (h *handler) state(_ context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s state
	if wanted("user-equipment") && (len(path) > 0 || len(h.users.of) <= whole) {
		var err error
		if s.Users, err = h.userStates(path); err != nil {
			return nil, err
		}
	}
	if wanted("ethernet-session") {
		var err error
		if s.Sessions, err = h.sessions.states(path); err != nil {
			return nil, err
		}
	}
	if wanted("frames") {
		f, err := h.sessions.read(h.programs)
		if err != nil {
			return nil, err
		}
		s.Frames = &f
	}
	if wanted("base-station") {
		all, err := h.path.States()
		if err != nil {
			return nil, err
		}
		for _, is := range all {
			s.Stations = append(s.Stations, stationState{is, is.Users})
		}
	}
	if wanted("messages") {
		m := h.path.Messages()
		s.Messages = &m
	}
	return s, nil
}

// userStates returns the counters of all devices, or of the one whose address is in the path.
func (h *handler) userStates(path []string) (all []userState, err error) {
	if len(path) > 1 {
		ip, _ := netip.ParseAddr(path[1]) // the framework has checked it
		is := h.users.of[ip]
		if is == nil {
			return nil, nil // there is none: the framework says so
		}
		n, err := h.users.counters.read(is.counter)
		return []userState{stateOf(ip, n)}, err
	}
	sums, err := h.users.counters.all()
	for ip, is := range h.users.of {
		all = append(all, stateOf(ip, sums[is.counter]))
	}
	return all, err
}

// states returns the counters and learned addresses of all sessions, or of the one whose TEID is in the path.
func (s *sessions) states(path []string) (all []sessionState, err error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	learned := map[uint32][]learnedState{}
	for mac, p := range s.places.All(&err) {
		if p.Fixed == 0 {
			learned[p.TEID] = append(learned[p.TEID], learnedState{mac, uint32(aging.Age(now, p.Seen).Seconds())})
		}
	}
	for teid, is := range s.of {
		if len(path) > 1 && path[1] != strconv.FormatUint(uint64(teid), 10) {
			continue
		}
		n, failed := s.counters.read(is.counter)
		err = errors.Join(err, failed)
		all = append(all, sessionState{teid, n.Up.Packets, n.Up.Bytes, n.Down.Packets, n.Down.Bytes, learned[teid]})
	}
	return all, err
}

func stateOf(ip netip.Addr, n counts) userState {
	return userState{ip, n.Up.Packets, n.Up.Bytes, n.Down.Packets, n.Down.Bytes}
}
