// SPDX-License-Identifier: Apache-2.0

// A service that no daemon contains: the test binary is the daemon that does.

package e2e

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/cubes/all" // the services
	polycubed "github.com/polycube/polycube/internal/daemon"
	"github.com/polycube/polycube/test/cubeapi"
	"github.com/polycube/polycube/test/pkt"
)

var (
	//go:embed testdata/responder.yang
	responderModel string
	//go:embed testdata/responder.tc.o
	responderTC []byte
	//go:embed testdata/responder.xdp.o
	responderXDP []byte
)

// asDaemon is the variable that makes the test binary a daemon.
const asDaemon = "POLYCUBE_E2E_DAEMON"

// beDaemon runs the daemon with the services of the tests.
func beDaemon() {
	cube.Register(cube.Service{
		Model:   responderModel,
		Objects: map[cube.Hook][]byte{cube.TC: responderTC, cube.XDP: responderXDP},
		New:     func(env cube.Env) (cube.Instance, error) { return newResponder(env).instance(), nil },
	})
	cube.Register(cubeapi.Service())
	registerTally(strings.TrimPrefix(os.Getenv(asDaemon), "daemon "))
	os.Exit(polycubed.Main(os.Args[1:], os.Stdout, os.Stderr))
}

// responderConfig is the decoded configuration.
type responderConfig struct {
	Ports []struct {
		cube.Port
		IP  string `json:"ip"`
		MAC string `json:"mac"`
	} `json:"ports"`
	Greeting string `json:"greeting"`
}

type responder struct {
	env cube.Env
}

func newResponder(env cube.Env) *responder {
	return &responder{env: env}
}

func (r *responder) instance() cube.Instance {
	return cube.Instance{Prepare: cube.Typed(r.prepare), Interfaces: r.Interfaces, NamespaceChanged: r.NamespaceChanged}
}

func (r *responder) prepare(_ context.Context, c cube.ChangeOf[responderConfig]) (cube.Plan, error) {
	old, after := c.Old, c.New
	looks, err := after.interfaces()
	if err != nil {
		return cube.Plan{}, err
	}
	return cube.Plan{Before: []cube.Step{cube.Effect(func() (func() error, error) {
		macs, err := r.env.Map("macs")
		if err != nil {
			return nil, err
		}
		for name, look := range looks {
			index, ok := r.env.PortIndex(name)
			if !ok {
				return nil, fmt.Errorf("port %s: %w", name, cube.ErrNotFound)
			}
			var mac [8]byte
			copy(mac[:], look.MAC)
			if err := macs.Put(uint32(index), mac); err != nil {
				return nil, err
			}
		}
		if after.Greeting != "" && old != nil && old.Greeting != after.Greeting {
			return nil, r.greet(after)
		}
		return nil, nil
	})}}, nil
}

// greet sends the namespace a frame on every port.
func (r *responder) greet(c *responderConfig) error {
	frame := pkt.EthernetFrame([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte{2, 0, 0, 0, 0, 1}, streamType, make([]byte, 50))
	copy(frame[14:], c.Greeting)
	for _, p := range c.Ports {
		index, _ := r.env.PortIndex(p.Name)
		if err := r.env.Send(&cube.PacketOut{Port: index, Namespace: true, Data: frame}); err != nil {
			return err
		}
	}
	return nil
}

func (c *responderConfig) interfaces() (map[string]cube.Interface, error) {
	looks := map[string]cube.Interface{}
	for _, p := range c.Ports {
		var look cube.Interface
		if p.IP != "" {
			prefix, err := netip.ParsePrefix(p.IP)
			if err != nil {
				return nil, fmt.Errorf("port %s: %w: %w", p.Name, err, cube.ErrInvalid)
			}
			look.Addresses = []netip.Prefix{prefix}
		}
		if p.MAC != "" {
			mac, err := net.ParseMAC(p.MAC)
			if err != nil {
				return nil, fmt.Errorf("port %s: %w: %w", p.Name, err, cube.ErrInvalid)
			}
			look.MAC = mac
		}
		looks[p.Name] = look
	}
	return looks, nil
}

// Interfaces returns the interfaces of ports in the namespace.
func (r *responder) Interfaces(conf json.RawMessage) (map[string]cube.Interface, error) {
	var c responderConfig
	if err := json.Unmarshal(conf, &c); err != nil {
		return nil, err
	}
	return c.interfaces()
}

// NamespaceChanged has a port follow its interface; a port has one IPv4 address.
func (r *responder) NamespaceChanged(port string, was, is cube.Interface) ([]cube.Edit, error) {
	edits := []cube.Edit{{Path: []string{"ports", port, "mac"}, Value: is.MAC.String()}}
	var v4 []netip.Prefix
	for _, a := range is.Addresses {
		if a.Addr().Is4() {
			v4 = append(v4, a)
		}
	}
	switch {
	case len(v4) == 0 && len(was.Addresses) == 0:
		return edits, nil
	case len(v4) == 0:
		return append(edits, cube.Edit{Path: []string{"ports", port, "ip"}, Delete: true}), nil
	case len(v4) == 1:
		return append(edits, cube.Edit{Path: []string{"ports", port, "ip"}, Value: v4[0].String()}), nil
	}
	return nil, fmt.Errorf("a port has one address, not %v: %w", v4, cube.ErrUnsupported)
}
