// SPDX-License-Identifier: Apache-2.0

package perf

// The forwarders between the two netdevs of a wire: ours and the baselines.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/cubes/simplebridge" // registers the service
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
)

// The forwarders.
const (
	nothing     = "nothing"
	vanillaXDP  = "vanilla XDP redirect"
	ourXDP      = "simplebridge, XDP"
	vlanXDP     = "bridge, XDP"
	vanillaTC   = "vanilla tcx redirect"
	ourTC       = "simplebridge, tcx"
	vlanTC      = "bridge, tcx"
	linuxBridge = "Linux bridge"
)

type forwarder struct {
	name  string
	setup func(*lab.Rig, *lab.Wire) error
}

// forwarders lists all, the fastest first; root is the directory of the repository.
func forwarders(root string) []forwarder {
	return []forwarder{
		{nothing, (*lab.Rig).Discard},
		{vanillaXDP, redirectXDP},
		{ourXDP, ours(cube.TypeXDPDRV)},
		{vlanXDP, vlanBridge(root, cube.TypeXDPDRV)},
		{vanillaTC, redirectTC},
		{ourTC, ours(cube.TypeTC)},
		{vlanTC, vlanBridge(root, cube.TypeTC)},
		{linuxBridge, kernelBridge},
	}
}

// ours forwards by a simplebridge with two ports.
func ours(typ cube.Type) func(*lab.Rig, *lab.Wire) error {
	return func(r *lab.Rig, w *lab.Wire) error {
		_, _, err := newBridge(r, w, typ, datapath.ModeInline)
		return err
	}
}

// vlanBridge forwards through a bridge that a daemon creates, without any configuration.
func vlanBridge(root string, typ cube.Type) func(*lab.Rig, *lab.Wire) error {
	return func(r *lab.Rig, w *lab.Wire) error {
		_, err := newDaemonBridge(r, root, w, "bridge", typ, 1<<14)
		return err
	}
}

var roomyBody = `{"fdb":{"max-entries":%d},` + bridgeBody[1:]

// newDaemonBridge creates br1 of a service in a daemon between the netdevs of a wire, with room for a number of addresses.
func newDaemonBridge(r *lab.Rig, root string, w *lab.Wire, service string, typ cube.Type, room int) (*lab.Daemon, error) {
	d, err := startDaemon(r, filepath.Join(root, "bin"), w)
	if err != nil {
		return nil, err
	}
	return d, errors.Join(d.Request("POST", "/"+service+"/br1", fmt.Sprintf(roomyBody, room, typ)), d.Inlined("br1"))
}

// startDaemon starts a daemon in the machine between the hosts of a wire.
func startDaemon(r *lab.Rig, bin string, w *lab.Wire) (*lab.Daemon, error) {
	d, err := r.NewDaemon(w.Machine.Namespace, bin)
	if err == nil {
		_, err = d.Start()
	}
	return d, err
}

// newBridge links a simplebridge between the netdevs of a wire.
func newBridge(r *lab.Rig, w *lab.Wire, typ cube.Type, mode datapath.Mode) (*lab.Plane, *datapath.Node, error) {
	objects, err := service("simplebridge")
	if err != nil {
		return nil, nil, err
	}
	return bridgeOn(r, w, lab.PlaneOptions{
		Type: typ, Mode: mode,
		Services: map[string]map[cube.Hook][]byte{"simplebridge": objects},
	})
}

func bridgeOn(r *lab.Rig, w *lab.Wire, o lab.PlaneOptions) (*lab.Plane, *datapath.Node, error) {
	p, err := r.NewPlane(w.Machine.Namespace, o)
	if err != nil {
		return nil, nil, err
	}
	b, err := p.Cube("simplebridge", 2, nil)
	if err != nil {
		return nil, nil, err
	}
	return p, b, errors.Join(p.Netdev(b, 0, lab.In), p.Netdev(b, 1, lab.Out), p.Commit())
}

// service returns the programs of a registered service.
func service(name string) (map[cube.Hook][]byte, error) {
	for _, s := range cube.Services() {
		if strings.Contains(s.Model, "module "+name+" {") {
			return s.Objects, nil
		}
	}
	return nil, fmt.Errorf("service %s: %w", name, cube.ErrNotFound)
}

// redirectXDP forwards in both directions by devmap redirects.
func redirectXDP(r *lab.Rig, w *lab.Wire) error {
	return eachWay(w, func(in, out uint32) error {
		spec, err := bpf.Spec("redirect", cube.XDP)
		if err != nil {
			return err
		}
		coll, err := ebpf.NewCollection(spec)
		if err != nil {
			return fmt.Errorf("vanilla redirect: %w", err)
		}
		r.Cleanup(coll.Close)
		if err := coll.Maps["devices"].Put(uint32(0), out); err != nil {
			return fmt.Errorf("vanilla redirect: %w", err)
		}
		l, err := ebpflink.AttachXDP(ebpflink.XDPOptions{
			Program: coll.Programs["forward"], Interface: int(in), Flags: ebpflink.XDPDriverMode,
		})
		if err != nil {
			return fmt.Errorf("vanilla redirect: %w", err)
		}
		r.Closing(l)
		return nil
	})
}

// redirectTC forwards in both directions by redirects to a constant interface.
func redirectTC(r *lab.Rig, w *lab.Wire) error {
	return eachWay(w, func(in, out uint32) error {
		spec, err := bpf.Spec("redirect", cube.TC)
		if err == nil {
			err = spec.Variables["out_ifindex"].Set(out)
		}
		if err != nil {
			return fmt.Errorf("vanilla redirect: %w", err)
		}
		coll, err := ebpf.NewCollection(spec)
		if err != nil {
			return fmt.Errorf("vanilla redirect: %w", err)
		}
		r.Cleanup(coll.Close)
		l, err := ebpflink.AttachTCX(ebpflink.TCXOptions{
			Program: coll.Programs["forward"], Interface: int(in), Attach: ebpf.AttachTCXIngress,
		})
		if err != nil {
			return fmt.Errorf("vanilla redirect: %w", err)
		}
		r.Closing(l)
		return nil
	})
}

// eachWay calls fn for both directions, in the namespace of the machine.
func eachWay(w *lab.Wire, fn func(in, out uint32) error) error {
	return w.Machine.Do(func() error {
		in, err := ifindex(lab.In)
		if err != nil {
			return err
		}
		out, err := ifindex(lab.Out)
		if err != nil {
			return err
		}
		return errors.Join(fn(in, out), fn(out, in))
	})
}

// kernelBridge forwards by the bridge of the kernel, without netfilter.
func kernelBridge(_ *lab.Rig, w *lab.Wire) error {
	return w.Machine.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "br0"
		br := &netlink.Bridge{LinkAttrs: attrs}
		if err := netlink.LinkAdd(br); err != nil {
			return fmt.Errorf("making the bridge: %w", err)
		}
		// Without the module there is no such file and nothing to disable.
		for _, table := range []string{"iptables", "ip6tables", "arptables"} {
			err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+table, []byte("0"), 0)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("bridge without netfilter: %w", err)
			}
		}
		for _, name := range []string{lab.In, lab.Out} {
			dev, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkSetMaster(dev, br)
			}
			if err != nil {
				return fmt.Errorf("adding %s to the bridge: %w", name, err)
			}
		}
		if err := netlink.LinkSetUp(br); err != nil {
			return fmt.Errorf("bridge up: %w", err)
		}
		return nil
	})
}
