// SPDX-License-Identifier: Apache-2.0

// A machine on which operations of the model are executed: hosts that are added and removed, a daemon that runs or does
// not.

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/e2e/model"
	"github.com/polycube/polycube/test/netns"
)

// site is a machine with hosts, and the world as it should be.
type site struct {
	t testing.TB
	*machine
	d     *daemon
	args  []string
	world *model.World
	hosts map[string]*plug
	// step is the number of the operation.
	step uint32
	// last are the counters after the last frames. Later counts belong to the next ones.
	last map[string]stats
	// away is the result of frames while there was no daemon, nil while there is one.
	away *model.Outcome
	// frames is the number of frames sent.
	frames int
	// patience limits the wait for an expected state.
	patience time.Duration
}

// plug is a host whose device may exist or not.
type plug struct {
	ns       *netns.Namespace
	name     string
	mac      net.HardwareAddr
	raw, far *netns.Raw // at the host, and on the device's end in the lab
}

// newSite creates a machine with hosts and a running daemon.
func newSite(t testing.TB, args ...string) *site {
	t.Helper()
	s := &site{t: t, machine: newMachine(t), args: args, world: newWorld(), hosts: map[string]*plug{},
		last: map[string]stats{}, patience: patience / 2}
	for _, name := range s.world.Devices() {
		mac, err := net.ParseMAC(s.world.Netdevs[name].MAC)
		if err != nil {
			t.Fatal(err)
		}
		s.hosts[name] = &plug{ns: netns.New(t), name: name, mac: mac}
		s.plugIn(s.hosts[name])
	}
	s.d = s.Start(args...)
	return s
}

// plugIn creates the device of a host.
func (s *site) plugIn(p *plug) {
	s.t.Helper()
	s.lab.Must(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = p.name
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: netns.Inner, PeerNamespace: netlink.NsFd(p.ns.Fd()), PeerHardwareAddr: p.mac}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("create %s: %w", p.name, err)
		}
		if err := p.ns.Do(func() error { return setUp(netns.Inner, true) }); err != nil {
			return err
		}
		return setUp(p.name, true)
	})
	s.carrier(p)
	p.raw, p.far = netns.OpenRaw(s.t, p.ns, netns.Inner), netns.OpenRaw(s.t, s.lab, p.name)
}

func setUp(dev string, up bool) error {
	l, err := netlink.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("%s: %w", dev, err)
	}
	if up {
		return netlink.LinkSetUp(l)
	}
	return netlink.LinkSetDown(l)
}

// carrier waits until both ends of a host's device send.
func (s *site) carrier(p *plug) {
	s.t.Helper()
	operational := func(dev string) error {
		l, err := netlink.LinkByName(dev)
		if err == nil && l.Attrs().OperState != netlink.OperUp {
			err = fmt.Errorf("%s is %s", dev, l.Attrs().OperState)
		}
		return err
	}
	netns.Eventually(s.t, patience, func() error {
		return errors.Join(s.lab.Do(func() error { return operational(p.name) }), p.ns.Do(func() error { return operational(netns.Inner) }))
	})
}

// do executes an operation on the machine, which must end as the model says, and on the world.
func (s *site) do(o model.Op) {
	s.t.Helper()
	s.step++
	if o.OnDaemon() || o.OnNetdev() {
		if err := s.world.Apply(o); err != nil {
			s.t.Fatal(err)
		}
		s.outside(o)
		return
	}
	method, path, body := o.Request(s.world.Service(o))
	if s.world.Service(o) == "" {
		path = strings.Replace(path, "//", "/simplebridge/", 1) // nobody's: any service will do
	}
	status, text, err := s.Request(method, path, body)
	if err != nil {
		s.t.Fatalf("%s: %v", o, err)
	}
	refused := s.world.Apply(o)
	if refused == nil {
		s.forget(o)
	}
	if done := status < 300; done != (refused == nil) || status >= 500 {
		s.t.Fatalf("%s: status %d, %s; the model says: %v", o, status, clip(text), refused)
	}
}

// forget removes the counters of deleted cubes from those to compare with: another one with that name starts at zero.
func (s *site) forget(o model.Op) {
	switch o.Verb {
	case model.DelCube:
		delete(s.last, o.Cube)
	case model.DelPort:
		name, port, _ := strings.Cut(o.At, ":")
		was, known := s.last[name]
		if !known {
			return
		}
		was.Ports = slices.Clone(was.Ports)
		for i := range was.Ports {
			if was.Ports[i].Name == port {
				was.Ports[i].RxPackets, was.Ports[i].TxPackets = 0, 0
			}
		}
		s.last[name] = was
	}
}

// outside executes operations that are not requests.
func (s *site) outside(o model.Op) {
	s.t.Helper()
	p := s.hosts[o.To]
	switch o.Verb {
	case model.Kill:
		s.d.Kill9()
		return
	case model.Stop:
		s.d.Stop()
		return
	case model.Start:
		s.d = s.machine.Start(s.args...)
		return
	case model.AddNetdev:
		s.plugIn(p)
	case model.DelNetdev:
		s.lab.Must(func() error {
			l, err := netlink.LinkByName(o.To)
			if err != nil {
				return err
			}
			return netlink.LinkDel(l)
		})
	default:
		s.lab.Must(func() error { return setUp(o.To, o.Verb == model.NetdevUp) })
		if o.Verb == model.NetdevUp {
			s.carrier(p)
		}
	}
}

// shown is a cube and its ports as the daemon shows them.
type shown struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Level  string `json:"loglevel"`
	Parent string `json:"parent"`
	Ports  []struct {
		Name   string   `json:"name"`
		Peer   string   `json:"peer"`
		Status string   `json:"status"`
		Tcubes []string `json:"tcubes"`
	} `json:"ports"`
	Action  string `json:"action"`
	Ingress string `json:"ingress-action"`
	Egress  string `json:"egress-action"`
	Actions []struct{ Inport, Action, Outport string }
	Fdb     struct {
		Aging int `json:"aging-time"`
		Entry []struct{ Address, Port string }
	} `json:"fdb"`
}

// configured waits until the daemon shows the world of the model: it notices changes of devices a moment later.
func (s *site) configured() {
	s.t.Helper()
	if s.world.Down {
		return
	}
	want := s.wanted()
	netns.Eventually(s.t, s.patience, func() error {
		status, text, err := s.Request(http.MethodGet, "/cubes", "")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("GET /cubes: status %d, %w", status, err)
		}
		got, err := flatten(text)
		if err != nil {
			return err
		}
		if err := differ(got, want); err != nil {
			return err
		}
		return s.lab.Do(s.attachedAsModelled)
	})
}

// attachedAsModelled expects programs on the devices that are peers or have transparent cubes, and on no other.
func (s *site) attachedAsModelled() error {
	for _, name := range s.world.Devices() {
		n := s.world.Netdevs[name]
		if !n.Present {
			continue
		}
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		in := l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
		out := false
		for at, is := range map[ebpf.AttachType]*bool{ebpf.AttachTCXIngress: &in, ebpf.AttachTCXEgress: &out} {
			found, err := netns.TCPrograms(l, at)
			if err != nil {
				return err
			}
			*is = *is || len(found) > 0
		}
		if wantIn, wantOut := s.world.Holder(name) != "" || len(n.Chain) > 0, len(n.Chain) > 0; in != wantIn || out != wantOut {
			return fmt.Errorf("%s has a program on its way in: %t, out: %t; want %t and %t", name, in, out, wantIn, wantOut)
		}
	}
	return nil
}

// differ is an error that names the lines that only one of two sorted lists has.
func differ(got, want []string) error {
	var out []string
	for _, line := range got {
		if !slices.Contains(want, line) {
			out = append(out, "+ "+line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			out = append(out, "- "+line)
		}
	}
	if len(out) == 0 && len(got) == len(want) {
		return nil
	}
	return fmt.Errorf("the daemon shows (+) and not (-):\n%s", strings.Join(out, "\n"))
}

// counters reads those of all cubes.
func (s *site) counters() map[string]stats {
	s.t.Helper()
	all := map[string]stats{}
	for _, name := range s.world.Names() {
		all[name] = s.Stats(name)
	}
	return all
}

// quiet compares the counts while there was no daemon with the frames sent meanwhile.
func (s *site) quiet() {
	s.t.Helper()
	x := &expected{site: s, outcome: s.away}
	s.away = nil
	now := s.counters()
	for _, wrong := range x.compare(now, false) {
		s.t.Errorf("counted while there was no daemon (got/want): %s", wrong)
	}
	s.last = now
}

// send puts a frame on a wire. If the egress path drops it at once, the kernel returns an error, which is ignored here;
// a socket also reports once that a device was down meanwhile.
func (s *site) send(r *netns.Raw, frame []byte) {
	s.t.Helper()
	err := r.Send(frame)
	if errors.Is(err, unix.ENETDOWN) {
		err = r.Send(frame)
	}
	if err != nil && !errors.Is(err, unix.ENOBUFS) {
		s.t.Fatal(err)
	}
	s.frames++
}

// collect collects the frames that arrived at a host.
func (p *plug) collect(take func([]byte) error) error {
	for {
		f, err := p.raw.Recv(isStream, 0)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, unix.ENETDOWN):
			continue // the socket's one error for a device that went down
		case err != nil:
			return err
		}
		if err := take(f); err != nil {
			return err
		}
	}
}

// pause is the time between two checks.
func pause() { <-time.After(200 * time.Microsecond) }
