// SPDX-License-Identifier: Apache-2.0

package table_test

// Cubes that use the table: it is shared, and outlives the daemon.

import (
	"bytes"
	"context"
	_ "embed"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

var (
	//go:embed testdata/filter.tc.o
	filterTC []byte
	//go:embed testdata/filter.xdp.o
	filterXDP []byte
)

const filterModel = `module filter {
  yang-version 1.1;
  namespace "http://polycube.network/filter";
  prefix filter;
  import polycube-base { prefix polycube-base; }
  import polycube-standard-base { prefix polycube-standard-base; }
  revision 2026-01-01;
  polycube-base:service-name "filter";
  polycube-base:service-description "For a test";
  polycube-base:service-version "1.0.0";
  uses polycube-standard-base:standard-base-yang-module;
}`

// filter is the control plane: it opens the table, and has nothing else to do.
type filter struct {
	env   cube.Env
	table *table.Table
}

func newFilter(env cube.Env) (cube.Instance, error) {
	f := &filter{env: env}
	open := cube.Effect(func() (undo func() error, err error) {
		if f.table != nil {
			return nil, nil
		}
		f.table, err = table.Open(env, table.DefaultSize)
		return nil, err
	})
	return cube.Instance{
		Prepare: func(context.Context, cube.Change) (cube.Plan, error) {
			return cube.Plan{Before: []cube.Step{open}}, nil
		},
		Close: func() {
			if f.table == nil {
				return
			}
			if err := f.table.Close(); err != nil {
				f.env.Logger().Error("close the connection table", "error", err)
			}
		},
	}, nil
}

// hosts are the ends of a connection.
const hostA, hostB = "10.0.0.1", "10.0.0.2"

func udp(from, to string, sport, dport uint16) []byte {
	h := pkt.IPv4Header{From: from, To: to, Protocol: pkt.ProtoUDP, TTL: 64}
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IP(h.Packet(pkt.UDPDatagram(from, to, sport, dport, []byte("hello")))).Bytes()
}

func TestCubesShareTheTable(t *testing.T) {
	service := cube.Service{Model: filterModel, Objects: map[cube.Hook][]byte{cube.TC: filterTC, cube.XDP: filterXDP}, New: newFilter}
	bpftest.Each(t, bpftest.Options{Hosts: 4, Services: []cube.Service{service}}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("filter", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`)
		l.Create("filter", "g", `{"ports":[{"name":"p1","peer":"veth3"},{"name":"p2","peer":"veth4"}]}`)
		expect := func(dev string, frame []byte, want string) {
			t.Helper()
			out := l.Run(dev, frame)
			if got := strings.TrimSpace(out.Verdict + " " + out.Sent + out.Fate); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %q", dev, got, want)
			}
		}
		there, back := udp(hostA, hostB, 1000, 53), udp(hostB, hostA, 53, 1000)
		expect("veth2", back, "drop f no-connection")
		expect("veth1", there, "send f:p2")
		expect("veth2", back, "send f:p1")
		expect("veth4", back, "send g:p1")
		expect("veth2", udp(hostB, hostA, 53, 1001), "drop f no-connection")
		l.Restart(func() {})
		expect("veth2", back, "send f:p1")
		tab := open(t, l)
		defer func() { _ = tab.Close() }()
		page, next := tab.Page(0, 10, nil)
		if len(page) != 1 || next != 0 || page[0].State.State != conntrack.Replied || page[0].Key.Port[0].Number()+page[0].Key.Port[1].Number() != 1053 {
			t.Errorf("the table contains %+v, want one connection that has a reply", page)
		}
		if n, err := tab.Remove(func(*table.Entry) bool { return true }); n != 1 || err != nil {
			t.Errorf("%d are removed, %v, want 1", n, err)
		}
		expect("veth2", back, "drop f no-connection")
		tab.Limit(7, 1)
		expect("veth3", there, "send g:p2")
		expect("veth1", udp(hostA, hostB, 1001, 53), "drop f refused")
	})
}

// mapsOf are the maps of the cube f.
type mapsOf struct{ l *bpftest.Lab }

func (m mapsOf) Map(name string) (*ebpf.Map, error) { return m.l.Map("f", name), nil }

func (mapsOf) Inner(name string) (*ebpf.MapSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(filterTC))
	if err != nil {
		return nil, err
	}
	return spec.Maps[name].InnerMap, nil
}

// open opens the table of a lab.
func open(t *testing.T, l *bpftest.Lab) *table.Table {
	t.Helper()
	tab, err := table.Open(mapsOf{l}, table.DefaultSize)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}
