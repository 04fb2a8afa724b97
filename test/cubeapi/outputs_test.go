// SPDX-License-Identifier: Apache-2.0

package cubeapi

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // cubes to redirect to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

var (
	//go:embed selector.yang
	selectorModel string
	//go:embed selector.tc.o
	selectorTC []byte
	//go:embed selector.xdp.o
	selectorXDP []byte
)

// selectorConfig is the model's tree.
type selectorConfig struct {
	Incoming bool          `json:"incoming"`
	Outgoing bool          `json:"outgoing"`
	Outputs  []cube.Output `json:"outputs"`
}

func newSelector(cube.Env) (cube.Instance, error) {
	return cube.Instance{Prepare: cube.Typed(func(_ context.Context, c cube.ChangeOf[selectorConfig]) (cube.Plan, error) {
		return cube.Plan{Constants: map[string]any{"incoming": c.New.Incoming, "outgoing": c.New.Outgoing}}, nil
	})}, nil
}

var selector = cube.Service{Model: selectorModel, New: newSelector, Objects: map[cube.Hook][]byte{cube.TC: selectorTC, cube.XDP: selectorXDP}}

// to is a frame whose destination selects an output.
func to(output int) []byte {
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", fmt.Sprint("10.0.0.", 10+output)).UDP(1, 2).Payload(30).Bytes()
}

// TestOutputsOfTheModel: a service with nothing but the grouping redirects to netdevs and ports, which go and come back, in
// both directions, and after a restart.
func TestOutputsOfTheModel(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ, Mode: datapath.ModeInline, Hosts: 4, Follow: true, Services: append(cube.Services(), selector),
				Host: []netns.Option{netns.WithGRO()}})
			l.Create("simpleforwarder", "f", `{"ports":[{"name":"p3","peer":"veth3"},{"name":"p4","peer":"veth4"}],
				"actions":[{"inport":"p3","action":"FORWARD","outport":"p4"},{"inport":"p4","action":"FORWARD","outport":"p3"}]}`)
			l.Create("simpleforwarder", "g", `{"ports":[{"name":"p1","peer":"veth1"}]}`)
			l.Create("selector", "s", `{"outputs":[{"number":2,"to":"veth2"},{"number":3,"to":"f:p3"}]}`)
			l.Attach("s", "g:p1")
			redirected := bpftest.Outcome{Verdict: "send", Fate: "s redirected"}
			check := func(step string, output int, want bpftest.Outcome) {
				t.Helper()
				if got := l.Run("veth1", to(output)); got != want {
					t.Errorf("%s: output %d: %+v, want %+v", step, output, got, want)
				}
			}
			none := bpftest.Outcome{Verdict: "drop", Fate: "s no-output"}
			through := bpftest.Outcome{Verdict: "send", Sent: "f:p4", Fate: "s redirected"}
			check("a netdev", 2, redirected)
			check("a port", 3, through)
			check("no output", 4, none)
			if got := l.Counters("f", "p3").RxPackets; got != 1 {
				t.Errorf("the port received %d packets, want 1", got)
			}
			wires := l.Wires()
			wires[0].Puts(to(2))
			wires[1].Gets(to(2))
			wires[0].Puts(to(3))
			wires[3].Gets(to(3))
			status := func(step, want string) {
				t.Helper()
				netns.Eventually(t, bpftest.Patience, func() error {
					if got := l.Read("s outputs 2"); !strings.Contains(got, want) {
						return fmt.Errorf("%s: output 2 is %s, want %s", step, got, want)
					}
					return nil
				})
			}
			l.Lab.Run("ip", "link", "set", "veth2", "down")
			status("down", `"status":"DOWN","status-reason":"veth2 is down: ip link set veth2 up"`)
			check("a netdev that is down", 2, none)
			l.Lab.Run("ip", "link", "set", "veth2", "up")
			status("up", `"status":"UP"`)
			check("a netdev that is up again", 2, redirected)
			l.Set("PATCH", "s outputs 2", `{"to":"veth4"}`)
			wires[0].Puts(to(2))
			wires[3].Gets(to(2))
			l.Restart(func() {
				wires[0].Puts(to(2))
				wires[3].Gets(to(2))
			})
			check("after a restart", 2, redirected)
			check("after a restart", 3, through)
			l.Set("DELETE", "f actions", "")
			l.Set("DELETE", "f ports p3", "")
			check("a port that is gone", 3, none)
			l.Set("PATCH", "s", `{"incoming":false,"outgoing":true}`)
			l.Detach("s", "g:p1")
			l.Attach("s", "f:p4")
			l.Set("POST", "f ports p3", `{"peer":"veth3"}`)
			l.Set("POST", "f actions p3", `{"action":"FORWARD","outport":"p4"}`)
			l.Set("POST", "s outputs 1", `{"to":"veth1"}`)
			wires = l.Wires()
			wires[2].Puts(to(1))
			wires[0].Gets(to(1))
		})
	}
}
