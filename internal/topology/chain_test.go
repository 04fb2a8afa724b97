// SPDX-License-Identifier: Apache-2.0

package topology

// The rules of service chains (interface §2.7), each as the requests that lead to it.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// bridges makes two bridges with two ports each, an XDP one, and filters at both hooks.
var bridges = []string{
	`create toybridge br1 <<< {"ports":[{"name":"p1"},{"name":"p2"}]}`,
	`create toybridge br2 <<< {"ports":[{"name":"p1"},{"name":"p2"}]}`,
	`create toybridge xbr <<< {"type":"XDP_DRV","ports":[{"name":"p1"}]}`,
	`create toyfilter th1`, `create toyfilter th2`, `create toyfilter th3`,
	`create toyfilter xth <<< {"type":"XDP_SKB"}`,
}

func TestRefusedChains(t *testing.T) {
	cases := []struct {
		name  string
		given []string
		when  string
		want  error
		says  string
	}{
		{"a port of a cube that is not there", nil, `connect br9:p1 veth1`, cube.ErrNotFound, "cube br9: not found"},
		{"a port that is not there", nil, `connect br1:p9 veth1`, cube.ErrNotFound, "port p9 of br1: not found"},
		{"a port with a peer", []string{`connect br1:p1 veth1`}, `connect br1:p1 veth2`, cube.ErrInUse, "port p1 of br1 already has a peer, veth1"},
		{"a port with a port as peer", []string{`connect br1:p1 br2:p1`}, `connect br2:p1 br1:p2`, cube.ErrInUse, "already has a peer, br1:p1"},
		{"a netdev in use", []string{`connect br1:p1 veth1`}, `connect br2:p1 veth1`, cube.ErrInUse, "already the peer of br1:p1"},
		{"a netdev in use, by its leaf", []string{`connect br1:p1 veth1`}, `patch br2 ports p1 peer <<< "veth1"`, cube.ErrInUse, "in use"},
		{"TC to XDP", nil, `connect br1:p1 xbr:p1`, cube.ErrInvalid, "a TC and an XDP port cannot be linked"},
		{"TC to XDP, by its leaf", nil, `patch br1 ports p1 peer <<< "xbr:p1"`, cube.ErrInvalid, "a TC and an XDP port cannot be linked"},
		{"a netdev that is not there", nil, `connect br1:p1 nodev0`, cube.ErrNotFound, "netdev nodev0: not found"},
		{"a netdev that is not there, at creation", nil, `create toybridge br3 <<< {"ports":[{"name":"p1","peer":"nodev0"}]}`, cube.ErrNotFound, "netdev nodev0: not found"},
		{"a netdev that is down", nil, `connect br1:p1 down0`, cube.ErrInvalid, "netdev down0 is down"},
		{"a port with itself", nil, `connect br1:p1 br1:p1`, cube.ErrInvalid, "both peers are the same"},
		{"a port with itself, by its leaf", nil, `patch br1 ports p1 peer <<< "br1:p1"`, cube.ErrInvalid, "its own peer"},
		{"two netdevs", nil, `connect veth1 veth2`, cube.ErrInvalid, "both peers are netdevs"},
		{"a transparent cube", nil, `connect th1:p1 veth1`, cube.ErrInvalid, "has no ports"},
		{"a port half linked by another", []string{`patch br1 ports p1 peer <<< "br2:p1"`}, `patch br1 ports p2 peer <<< "br2:p1"`, cube.ErrInUse, "already the peer of br1:p1"},
		{"a peer that no name can be", nil, `patch br1 ports p1 peer <<< "../../etc/passwd"`, cube.ErrInvalid, "neither a netdev's name nor cube:port"},
		{"what is not connected", nil, `disconnect br1:p1 veth1`, cube.ErrInvalid, "not connected"},
		{"attaching a standard cube", nil, `attach br1 br2:p1`, cube.ErrInvalid, "not a transparent cube"},
		{"attaching what is not there", nil, `attach th9 br1:p1`, cube.ErrNotFound, "cube th9: not found"},
		{"attaching to a port that is not there", nil, `attach th1 br1:p9`, cube.ErrNotFound, "port p9 of br1: not found"},
		{"attaching to a netdev that is not there", nil, `attach th1 nodev0`, cube.ErrNotFound, "netdev nodev0"},
		{"attaching twice", []string{`attach th1 br1:p1`}, `attach th1 br1:p2`, cube.ErrInUse, "already attached to br1:p1"},
		{"attaching XDP to a TC port", nil, `attach xth br1:p1`, cube.ErrInvalid, "TC and XDP cannot be mixed"},
		{"attaching XDP beside TC on a netdev", []string{`attach th1 veth1`}, `attach xth veth1 position=last`, cube.ErrInvalid, "TC and XDP cannot be mixed"},
		{"attaching XDP to a TC port's netdev", []string{`connect br1:p1 veth1`}, `attach xth veth1`, cube.ErrInvalid, "TC and XDP cannot be mixed"},
		{"connecting XDP to a netdev with a TC cube", []string{`attach th1 veth1`}, `connect xbr:p1 veth1`, cube.ErrInvalid, "TC and XDP cannot be mixed"},
		{"auto beside another", []string{`attach th1 br1:p1`}, `attach th2 br1:p1 position=auto`, cube.ErrInvalid, "cannot determine the position"},
		{"nothing said beside another", []string{`attach th1 veth1`}, `attach th2 veth1`, cube.ErrInvalid, "cannot determine the position"},
		{"two options", nil, `attach th1 br1:p1 position=first before=th2`, cube.ErrInvalid, "one of position, before and after"},
		{"an unknown position", nil, `attach th1 br1:p1 position=middle`, cube.ErrInvalid, "auto, first or last"},
		{"before what is elsewhere", []string{`attach th1 br1:p1`}, `attach th2 br1:p2 before=th1`, cube.ErrInvalid, "th1 is not attached there"},
		{"detaching what is not attached", nil, `detach th1 br1:p1`, cube.ErrInvalid, "th1 is not attached"},
		{"detaching from elsewhere", []string{`attach th1 br1:p1`}, `detach th1 br1:p2`, cube.ErrInvalid, "th1 is attached to br1:p1"},
		{"tcubes that are not there", nil, `post br1 ports p3 <<< {"tcubes":["th9"]}`, cube.ErrNotFound, "cube th9: not found"},
		{"tcubes attached elsewhere", []string{`attach th1 br1:p1`}, `post br1 ports p3 <<< {"tcubes":["th1"]}`, cube.ErrInUse, "already attached"},
		{"tcubes of another hook", nil, `post br1 ports p3 <<< {"tcubes":["xth"]}`, cube.ErrInvalid, "TC and XDP cannot be mixed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "veth1", "veth2")
			l.devs.set(netdev.Info{Name: "down0", Index: 99})
			l.must(bridges...)
			l.must(c.given...)
			before := l.state()
			err := l.do(c.when)
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%s answers %v, want %q (%v)", c.when, err, c.says, c.want)
			}
			l.wantState(before)
		})
	}
}

func TestTcubesAreFixedByTheModelOnceThePortIsMade(t *testing.T) {
	l := newLab(t)
	l.must(bridges...)
	l.must(`attach th1 br1:p1`)
	before := l.state()
	for _, line := range []string{`patch br1 ports p1 <<< {"tcubes":["th2"]}`, `put br1 ports p1 <<< {"tcubes":[]}`} {
		var refused *yang.Error
		if err := l.do(line); !errors.As(err, &refused) || refused.Tag != yang.InvalidValue {
			t.Errorf("%s answers %v, want invalid-value", line, err)
		}
	}
	l.wantState(before)
	l.must(`patch br1 ports p1 <<< {"tcubes":["th1"],"mac":"m"}`, `put br1 ports p1 <<< {"mac":"n"}`)
	l.wantRead(`["th1"]`, "br1", "ports", "p1", "tcubes")
}

func TestAttachmentOrder(t *testing.T) {
	steps := []string{
		`create toyfilter th4`, `create toyfilter th5`,
		`attach th3 %[1]s`, `attach th1 %[1]s position=first`, `attach th5 %[1]s position=last`,
		`attach th2 %[1]s after=th1`, `attach th4 %[1]s before=th5`,
	}
	at := func(l *lab, where string) {
		l.must(bridges...)
		for _, s := range steps {
			if strings.Contains(s, "%") {
				s = fmt.Sprintf(s, where)
			}
			l.must(s)
		}
	}
	t.Run("on a netdev, first sees the packet first", func(t *testing.T) {
		l := newLab(t, "veth1")
		at(l, "veth1")
		wantTopology(l, "veth1", `{"name":"veth1","cubes, ingress_index, egress_index":["th1, 0, 4","th2, 1, 3","th3, 2, 2","th4, 3, 1","th5, 4, 0"],`+
			`"ingress service chain":"th1 ---> th2 ---> th3 ---> th4 ---> th5 ---> stack",`+
			`"egress service chain":"th5 ---> th4 ---> th3 ---> th2 ---> th1 ---> stack"}`)
		if got, want := chainNames(l, l.plane.now().Netdevs["veth1"].Tcubes), "[th1 th2 th3 th4 th5]"; got != want {
			t.Errorf("the graph has %s, want %s", got, want)
		}
		l.wantRead(`"veth1"`, "th4", "parent")
	})
	t.Run("on a port, first is next to the cube", func(t *testing.T) {
		l := newLab(t, "veth1")
		at(l, "br1:p1")
		l.must(`connect br1:p1 veth1`)
		l.wantRead(`["th1","th2","th3","th4","th5"]`, "br1", "ports", "p1", "tcubes")
		wantTopology(l, "veth1", `{"name":"veth1","cubes, ingress_index, egress_index":["th5, 0, 4","th4, 1, 3","th3, 2, 2","th2, 3, 1","th1, 4, 0"],`+
			`"ingress service chain":"th5 ---> th4 ---> th3 ---> th2 ---> th1 ---> br1:p1",`+
			`"egress service chain":"br1:p1 ---> th1 ---> th2 ---> th3 ---> th4 ---> th5"}`)
		p := graphPort(l, "br1", "p1")
		if got, want := chainNames(l, p.Tcubes), "[th1 th2 th3 th4 th5]"; got != want {
			t.Errorf("the graph has %s, want %s", got, want)
		}
	})
	t.Run("tcubes of a new port keep their order", func(t *testing.T) {
		l := newLab(t)
		l.must(bridges...)
		l.must(`post br1 ports p3 <<< {"tcubes":["th2","th3","th1"]}`)
		l.wantRead(`["th2","th3","th1"]`, "br1", "ports", "p3", "tcubes")
		l.wantRead(`"br1:p3"`, "th3", "parent")
	})
}

func TestTheOrderAtAPortIsThatOfItsWay(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(bridges...)
	l.must(`connect br1:p1 br2:p1`, `connect br1:p2 veth1`, `attach th1 br1:p2`, `attach th2 br1:p2 position=last`,
		`attach th3 veth1`)
	const onPort = `{"name":"br1:p2","cubes, ingress_index, egress_index":["th3, 0, 2","th2, 1, 1","th1, 2, 0"],` +
		`"ingress service chain":"th3 ---> th2 ---> th1 ---> br1:p2","egress service chain":"br1:p2 ---> th1 ---> th2 ---> th3"}`
	wantTopology(l, "br1:p2", onPort)
	wantTopology(l, "veth1", strings.Replace(onPort, `"br1:p2","cubes`, `"veth1","cubes`, 1))
	l.must(`detach th2 br1:p2`, `attach th2 br1:p1`)
	wantTopology(l, "br1:p1", `{"name":"br1:p1","cubes, ingress_index, egress_index":["th2, 0, 0"],`+
		`"ingress service chain":"th2 ---> br1:p1","egress service chain":"br1:p1 ---> th2"}`)
	for _, name := range []string{"br1:p9", "br9:p1", "th1:p1", "br1:", "a/b"} {
		if raw, err := l.NetdevTopology(context.Background(), name); err == nil {
			t.Errorf("the topology of %s is %s", name, raw)
		}
	}
}

func wantTopology(l *lab, iface, want string) {
	l.t.Helper()
	raw, err := l.NetdevTopology(context.Background(), iface)
	if err != nil || string(raw) != want {
		l.t.Errorf("topology %s is\n%s, %v; want\n%s", iface, raw, err, want)
	}
}

func graphNode(l *lab, name string) *datapath.Node {
	for _, n := range l.plane.now().Cubes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func graphPort(l *lab, name, portName string) *datapath.Port {
	l.t.Helper()
	if n := graphNode(l, name); n != nil {
		for _, p := range n.Ports {
			if p.Name == portName {
				return p
			}
		}
	}
	l.t.Fatalf("the graph has no port %s of %s", portName, name)
	return nil
}

func chainNames(l *lab, ids []datapath.CubeID) string {
	var names []string
	for _, id := range ids {
		names = append(names, l.plane.now().Cubes[id].Name)
	}
	return fmt.Sprint(names)
}

// portRow describes how a port is linked.
func portRow(l *lab, name, portName string) string {
	l.t.Helper()
	raw, err := l.read(name, "ports", portName)
	if err != nil {
		return err.Error()
	}
	var p struct{ Status, Peer string }
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		l.t.Fatal(err)
	}
	g := graphPort(l, name, portName).Peer
	return fmt.Sprintf("%s %s linked=%v", p.Peer, p.Status, g != datapath.Peer{})
}

func TestLinksFollowRequests(t *testing.T) {
	cases := []struct {
		name string
		do   []string
		want map[string]string // port to peer, status and whether the graph links it
	}{
		{"connect sets both sides", []string{`connect br1:p1 br2:p1`},
			map[string]string{"br1:p1": "br2:p1 UP linked=true", "br2:p1": "br1:p1 UP linked=true"}},
		{"one side alone carries nothing", []string{`patch br1 ports p1 peer <<< "br2:p1"`},
			map[string]string{"br1:p1": "br2:p1 DOWN linked=false", "br2:p1": " DOWN linked=false"}},
		{"the second side completes it", []string{`patch br1 ports p1 peer <<< "br2:p1"`, `patch br2 ports p1 peer <<< "br1:p1"`},
			map[string]string{"br1:p1": "br2:p1 UP linked=true", "br2:p1": "br1:p1 UP linked=true"}},
		{"connect completes a half link", []string{`patch br1 ports p1 peer <<< "br2:p1"`, `connect br2:p1 br1:p1`},
			map[string]string{"br1:p1": "br2:p1 UP linked=true", "br2:p1": "br1:p1 UP linked=true"}},
		{"the same peer again is no change", []string{`connect br1:p1 veth1`, `connect veth1 br1:p1`, `patch br1 ports p1 peer <<< "veth1"`},
			map[string]string{"br1:p1": "veth1 UP linked=true"}},
		{"disconnect clears both sides", []string{`connect br1:p1 br2:p1`, `disconnect br2:p1 br1:p1`},
			map[string]string{"br1:p1": " DOWN linked=false", "br2:p1": " DOWN linked=false"}},
		{"disconnect a netdev", []string{`connect br1:p1 veth1`, `disconnect veth1 br1:p1`},
			map[string]string{"br1:p1": " DOWN linked=false"}},
		{"the leaf moves a port to another netdev", []string{`connect br1:p1 veth1`, `patch br1 ports p1 peer <<< "veth2"`, `connect br2:p1 veth1`},
			map[string]string{"br1:p1": "veth2 UP linked=true", "br2:p1": "veth1 UP linked=true"}},
		{"moving one side away clears the other", []string{`connect br1:p1 br2:p1`, `patch br1 ports p1 peer <<< "veth1"`},
			map[string]string{"br1:p1": "veth1 UP linked=true", "br2:p1": " DOWN linked=false"}},
		{"deleting a cube clears the other side", []string{`connect br1:p1 br2:p1`, `delete br2`},
			map[string]string{"br1:p1": " DOWN linked=false"}},
		{"deleting a port clears the other side", []string{`connect br1:p1 br2:p1`, `del br2 ports p1`},
			map[string]string{"br1:p1": " DOWN linked=false"}},
		{"deleting a port clears a half link to it", []string{`patch br1 ports p1 peer <<< "br2:p1"`, `del br2 ports p1`},
			map[string]string{"br1:p1": " DOWN linked=false"}},
		{"a port to another of the same cube", []string{`connect br1:p1 br1:p2`},
			map[string]string{"br1:p1": "br1:p2 UP linked=true", "br1:p2": "br1:p1 UP linked=true"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "veth1", "veth2")
			l.must(bridges...)
			l.must(c.do...)
			for at, want := range c.want {
				name, portName, _ := strings.Cut(at, ":")
				if got := portRow(l, name, portName); got != want {
					t.Errorf("%s is %q, want %q", at, got, want)
				}
			}
		})
	}
}

func TestTransparentCubesAreReleased(t *testing.T) {
	cases := []struct {
		name   string
		do     []string
		parent string // of th1
		chain  string // of br1:p1
	}{
		{"by detach", []string{`attach th1 br1:p1`, `detach th1 br1:p1`}, "", "[]"},
		{"by deleting the port", []string{`attach th1 br2:p1`, `del br2 ports p1`}, "", "[]"},
		{"by deleting the cube", []string{`attach th1 br2:p1`, `delete br2`}, "", "[]"},
		{"and can be attached again", []string{`attach th1 br2:p1`, `delete br2`, `attach th1 br1:p1`}, "br1:p1", `["th1"]`},
		{"and deleting one keeps the others", []string{`attach th1 br1:p1`, `attach th2 br1:p1 position=first`, `delete th2`}, "br1:p1", `["th1"]`},
		{"from a netdev", []string{`attach th1 veth1`, `detach th1 veth1`}, "", "[]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "veth1")
			l.must(bridges...)
			l.must(c.do...)
			l.wantRead(`"`+c.parent+`"`, "th1", "parent")
			l.wantRead(c.chain, "br1", "ports", "p1", "tcubes")
			if c.parent == "" && l.plane.now().Netdevs["veth1"] != nil {
				t.Error("the graph still has the netdev")
			}
		})
	}
}

func TestDeletingAnAttachedCubeDetachesItFromItsNetdev(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(bridges...)
	l.must(`attach th1 veth1`, `attach th2 veth1 position=last`, `delete th1`)
	wantTopology(l, "veth1", `{"name":"veth1","cubes, ingress_index, egress_index":["th2, 0, 0"],`+
		`"ingress service chain":"th2 ---> stack","egress service chain":"th2 ---> stack"}`)
	l.must(`delete th2`)
	if _, ok := l.records[world.NetdevKey+"veth1"]; ok {
		t.Error("the store still has the netdev")
	}
}

func TestCreateMany(t *testing.T) {
	const all = `many <<< [
		{"service-name":"toyfilter","name":"f1","parent":"veth2"},
		{"service-name":"toybridge","name":"a","ports":[{"name":"p1","peer":"b:p1","tcubes":["f2"]},{"name":"up","peer":"veth1"}]},
		{"service-name":"toybridge","name":"b","ports":[{"name":"p1","peer":"a:p1"}]},
		{"service-name":"toyfilter","name":"f2","ingress-action":"DROP","parent":"a:p1"}]`
	l := newLab(t, "veth1", "veth2")
	l.must(all)
	for at, want := range map[string]string{"a:p1": "b:p1 UP linked=true", "b:p1": "a:p1 UP linked=true", "a:up": "veth1 UP linked=true"} {
		name, portName, _ := strings.Cut(at, ":")
		if got := portRow(l, name, portName); got != want {
			t.Errorf("%s is %q, want %q", at, got, want)
		}
	}
	l.wantRead(`"veth2"`, "f1", "parent")
	l.wantRead(`"a:p1"`, "f2", "parent")
	l.wantRead(`["f2"]`, "a", "ports", "p1", "tcubes")

	refused := []struct {
		name, body, says string
	}{
		{"no array", `{}`, "expected an array of cubes"},
		{"null", `null`, "expected an array of cubes, not null"},
		{"no name", `[{"service-name":"toybridge"}]`, "name is missing"},
		{"no service", `[{"name":"x"}]`, "service-name is missing"},
		{"unknown service", `[{"service-name":"nope","name":"x"}]`, `service "nope": not found`},
		{"a second one that exists", `[{"service-name":"toybridge","name":"x"},{"service-name":"toybridge","name":"a"}]`, "already exists"},
		{"the same twice", `[{"service-name":"toybridge","name":"x"},{"service-name":"toyfilter","name":"x"}]`, "already exists"},
		{"a peer that is not there", `[{"service-name":"toybridge","name":"x","ports":[{"name":"p","peer":"y:p"}]}]`, "cube y: not found"},
		{"a bad leaf in the last", `[{"service-name":"toybridge","name":"x"},{"service-name":"toybridge","name":"y","fdb":{"aging-time":-1}}]`, "aging-time"},
		{"a parent that is not there", `[{"service-name":"toyfilter","name":"x","parent":"nodev0"}]`, "netdev nodev0: not found"},
	}
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			before := l.state()
			if err := l.do(`many <<< ` + c.body); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("answers %v, want %q", err, c.says)
			}
			l.wantState(before)
		})
	}
}
