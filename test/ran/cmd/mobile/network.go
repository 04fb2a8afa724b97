// SPDX-License-Identifier: Apache-2.0

package main

// The network: what each command does.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/ran"
	"github.com/polycube/polycube/test/smf"
)

// patience is how long the UPF may take to answer.
const patience = 10 * time.Second

const (
	pfcp = 8805
	qfi  = 9
	// IDs of the rules of each session.
	up, down, rate, flow, usage = 1, 2, 1, 2, 1
)

// options are those of the process that serves.
type options struct {
	smf, upf, n3 netip.Addr
	namespace    string
	stations     []netip.Addr
	paging       time.Duration
}

// network is an SMF, base stations and phones.
type network struct {
	options
	core     *smf.SMF
	stations []*ran.Station
	ended    chan struct{}

	mu     sync.Mutex // of commands and reports, one at a time
	phones []*phone   // in the order in which they were attached
}

// newNetwork opens all sockets.
func newNetwork(o options) (n *network, err error) {
	n = &network{options: o, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	for _, a := range o.stations {
		err := inside(o.namespace, func() error {
			s, err := ran.NewStation(a, o.n3)
			if err == nil {
				n.stations = append(n.stations, s)
			}
			return err
		})
		if err != nil {
			return n, err
		}
	}
	if n.core, err = smf.New(netip.AddrPortFrom(o.smf, pfcp), netip.AddrPortFrom(o.upf, pfcp), o.smf.String()); err != nil {
		return n, err
	}
	go n.reports()
	return n, nil
}

func (n *network) close() {
	close(n.ended)
	if n.core != nil {
		_ = n.core.Close() // the process ends
	}
	for _, p := range n.phones {
		_ = p.Close()
	}
	for _, s := range n.stations {
		_ = s.Close()
	}
}

// do carries out a command and returns what it has to say.
func (n *network) do(words []string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	switch command := strings.Join(words[:min(len(words), 1)], ""); {
	case command == "associate" && len(words) == 1:
		return n.associate(ctx)
	case command == "attach" && len(words) == 4:
		return n.attach(ctx, words[1], words[2], words[3])
	case command == "usage" && len(words) == 1:
		return n.usages(ctx)
	case len(words) < 2:
		return "", fmt.Errorf("unknown command %q", words)
	}
	p, err := n.phone(words[1])
	switch {
	case err != nil:
		return "", err
	case words[0] == "handover" && len(words) == 3:
		return n.handover(ctx, p, words[2])
	case words[0] == "idle" && len(words) == 2:
		return p.name + " sleeps: packets for it wait\n", n.modify(ctx, p, smf.FAR{ID: down, Action: smf.Buffer | smf.Notify}.Update())
	case words[0] == "detach" && len(words) == 2:
		return n.detach(ctx, p)
	}
	return "", fmt.Errorf("unknown command %q", words)
}

func (n *network) phone(name string) (*phone, error) {
	for _, p := range n.phones {
		if p.name == name && p.session != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s has no session", name)
}

func (n *network) associate(ctx context.Context) (string, error) {
	m, err := n.core.Associate(ctx)
	if err != nil {
		return "", err
	}
	node, err := m.NodeID.NodeID()
	return fmt.Sprintf("associated with UPF %s\n", node), err
}

// attach establishes a session and makes the phone's device.
func (n *network) attach(ctx context.Context, name, namespace, kbit string) (string, error) {
	limit, err := strconv.ParseUint(kbit, 10, 32)
	if err != nil {
		return "", err
	}
	p := &phone{name: name, namespace: namespace, station: 0}
	p.Downlink, p.QFI = uint32(1000+len(n.phones)), qfi
	rules := []uint32{rate, flow}
	p.session, err = n.core.Establish(ctx, uint64(p.Downlink),
		smf.PDR{ID: up, Precedence: 100, Source: ie.SrcInterfaceAccess, Choose: true, ChooseUE4: true, FAR: up, QERs: rules, URRs: []uint32{usage}}.Create(),
		smf.PDR{ID: down, Precedence: 100, Source: ie.SrcInterfaceCore, ChooseUE4: true, FAR: down, QERs: rules, URRs: []uint32{usage}}.Create(),
		smf.FAR{ID: up, Action: smf.Forward, Destination: ie.DstInterfaceCore}.Create(), n.toward(p, 0).Create(),
		smf.QER(rate, limit, limit, 0), smf.QER(flow, 0, 0, qfi),
		smf.URR{ID: usage, Triggers: [2]byte{2}, Threshold: 4 << 20}.Create())
	if err != nil {
		return "", err
	}
	p.Uplink = p.session.TEIDs[up]
	n.phones = append(n.phones, p)
	err = p.connect(n.stations[0])
	return fmt.Sprintf("%s: address %s, uplink TEID %#x, downlink TEID %#x at base station 1, %d kbit/s\n", name, p.session.IPv4, p.Uplink, p.Downlink, limit), err
}

// toward is the FAR of packets to a phone at a base station.
func (n *network) toward(p *phone, station int) smf.FAR {
	return smf.FAR{ID: down, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: n.options.stations[station], TEID: p.Downlink}
}

// modify modifies a session, and reads the usage reports of the response.
func (n *network) modify(ctx context.Context, p *phone, rules ...*ie.IE) error {
	m, err := n.core.Modify(ctx, p.session, rules...)
	if err != nil {
		return err
	}
	return p.note(m)
}

// handover moves a phone to a base station: that expects it, the path is switched, and then the phone sends there.
func (n *network) handover(ctx context.Context, p *phone, to string) (string, error) {
	station, err := strconv.Atoi(to)
	if err != nil || station < 1 || station > len(n.stations) {
		return "", fmt.Errorf("no base station %s", to)
	}
	from, ends := n.stations[p.station], len(n.stations[p.station].Ends())
	p.station = station - 1
	p.Downlink += 1000
	n.stations[p.station].Expect(&p.Phone, p.Downlink)
	far := n.toward(p, p.station)
	far.EndMarkers = true
	if err := n.modify(ctx, p, far.Update()); err != nil {
		return "", err
	}
	n.stations[p.station].Take(&p.Phone)
	for len(from.Ends()) == ends {
		select {
		case <-ctx.Done():
			return "", errors.New("no End Marker came to the former base station")
		case <-time.After(time.Millisecond):
		}
	}
	return fmt.Sprintf("%s is at base station %d, downlink TEID %#x; the former one got the End Marker, and %d packets after it\n", p.name, station, p.Downlink, from.AfterEnd()), nil
}

func (n *network) detach(ctx context.Context, p *phone) (string, error) {
	m, err := n.core.Delete(ctx, p.session)
	if err != nil {
		return "", err
	}
	p.session = nil
	return p.name + " no longer has a session\n", errors.Join(p.note(m), p.Close())
}

// reports reads the reports of the UPF until the end.
func (n *network) reports() {
	for {
		select {
		case <-n.ended:
			return
		case m := <-n.core.Requests():
			if r, ok := m.(*message.SessionReportRequest); ok {
				n.report(r)
			}
		}
	}
}

func (n *network) report(r *message.SessionReportRequest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.phones {
		if p.session == nil || p.session.CPSeid != r.SEID() {
			continue
		}
		if err := p.note(r); err != nil {
			fmt.Println("report:", err)
		}
		if r.DownlinkDataReport != nil {
			fmt.Printf("the UPF reports downlink data for %s: paging it\n", p.name)
			time.AfterFunc(n.paging, func() { n.page(p) })
		}
	}
}

// page wakes a phone up.
func (n *network) page(p *phone) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.session == nil {
		return
	}
	if err := n.modify(ctx, p, n.toward(p, p.station).Update()); err != nil {
		fmt.Printf("%s: %v\n", p.name, err)
		return
	}
	fmt.Printf("%s is connected again\n", p.name)
}
