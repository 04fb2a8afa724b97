// SPDX-License-Identifier: Apache-2.0

package upf

// State: devices, buffered packets, peers, and messages.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/pdusession"
)

// state has the structure of the model.
type state struct {
	Devices  []deviceState   `json:"device,omitempty"`
	Buffer   *bufferState    `json:"buffer,omitempty"`
	Peers    []gtppath.State `json:"peer,omitempty"`
	Messages *allMessages    `json:"messages,omitempty"`
}

// allMessages is the container `messages`.
type allMessages struct {
	gtppath.Messages
	messages
}

type deviceState struct {
	IP      netip.Addr `json:"ip"`
	Action  string     `json:"action"`
	Peer    netip.Addr `json:"tunnel-endpoint,omitzero"`
	TEID    uint32     `json:"remote-teid,omitempty"`
	QFI     uint8      `json:"qfi,omitempty"`
	Waiting uint32     `json:"waiting"`
}

func (u *upf) state(_ context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s state
	var err error
	if len(path) > 1 && path[0] == "device" {
		ip, _ := netip.ParseAddr(path[1]) // the framework has checked it
		d, ok, err := u.devices.Get(ip)
		if err == nil && ok {
			s.Devices = []deviceState{u.shown(d)}
		}
		return s, err
	}
	if wanted("buffer") {
		is := u.buffer.bufferState
		s.Buffer = &is
	}
	if wanted("peer") {
		if s.Peers, err = u.paths.States(); err != nil {
			return nil, err
		}
	}
	if wanted("messages") {
		s.Messages = &allMessages{u.paths.Messages(), u.messages}
	}
	return s, nil
}

// page returns a page of devices.
func (u *upf) page(_ context.Context, path []string, q cube.PageQuery) (page cube.Page, err error) {
	if !slices.Equal(path, []string{"device"}) {
		return page, fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	devices, next, err := u.devices.Page(q.After, q.Limit)
	if err != nil {
		return page, err
	}
	for _, d := range devices {
		raw, err := json.Marshal(u.shown(d))
		if err != nil {
			return page, fmt.Errorf("device %s: %w", d.IP, err)
		}
		if q.Matches == nil || q.Matches(raw) {
			page.Entries = append(page.Entries, raw)
		}
	}
	page.Next = next
	return page, nil
}

func (u *upf) shown(d pdusession.Device) deviceState {
	names := map[pdusession.Action]string{pdusession.Drop: "DROP", pdusession.Pass: "PASS", pdusession.Wait: "WAIT"}
	is := deviceState{IP: d.IP, Action: names[d.Action], Peer: d.Peer, TEID: d.TEID, QFI: d.QFI}
	if d.QueueRow != 0 {
		is.Waiting = u.buffer.queues.Waiting(d.QueueRow)
	}
	return is
}
