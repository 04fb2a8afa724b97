// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cubes/bridge/stp"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// rst is an RST BPDU of a designated port that proposes: of a bridge 02:00:00:00:00:bb that is the root with a priority.
func rst(t *testing.T, priority uint16) []byte {
	t.Helper()
	id := fmt.Sprintf("%04x0200000000bb", priority)
	b, err := hex.DecodeString("0000" + "0202" + "0e" + id + "00000000" + id + "8001" + "0000" + "1400" + "0200" + "0f00" + "00")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var neighbour = net.HardwareAddr{2, 0, 0, 0, 0, 0xbb}

// heard returns the next BPDU from the cube that meets a condition.
func heard(t *testing.T, w *bpftest.Wire, what string, is func(bpdu []byte) bool) {
	t.Helper()
	var last []byte
	_, err := w.Recv(func(f []byte) bool {
		b, err := stp.Unframe(f, 1)
		if err != nil {
			return false
		}
		last = b
		return is(b)
	}, pace.Stretch(15*time.Second))
	if err != nil {
		t.Errorf("%s: no such BPDU; the last one is %x: %v", what, last, err)
	}
}

// Each leaf of the trees changes the BPDUs or the state of the cube.
func TestLeavesOfSpanningTrees(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Follow: true})
	l.Create("bridge", "br", `{"stp-enabled":true,"mac":"02:00:00:00:0a:0b",`+threePorts[1:])
	wires := l.Wires()
	hello := stp.Frame(neighbour, 1, false, rst(t, 4096))
	at := func(offset int, want string) func([]byte) bool {
		return func(b []byte) bool {
			return len(b) > offset && strings.HasPrefix(hex.EncodeToString(b[offset:]), want)
		}
	}
	reads := func(words, want string) {
		t.Helper()
		netns.Eventually(t, pace.Stretch(15*time.Second), func() error {
			got, err := l.TryRead("br " + words)
			if err == nil && got != want {
				err = fmt.Errorf("%s is %s, want %s", words, got, want)
			}
			return err
		})
	}
	heard(t, wires[0], "at first", at(0, "0000"+"0202"))
	heard(t, wires[0], "of the bridge", at(17, "800002000000"+"0a0b"+"8001"+"0000"+"1400"+"0200"+"0a00"))
	l.Set("PATCH", "br stp 1", `{"priority":28672}`)
	heard(t, wires[0], "priority", at(5, "7000020000000a0b"))
	l.Set("PATCH", "br stp 1 forward-delay", `11`)
	l.Set("PATCH", "br stp 1 hello-time", `1`)
	l.Set("PATCH", "br stp 1 max-message-age", `7`)
	heard(t, wires[0], "times", at(27, "0000"+"0700"+"0100"+"0b00"))
	l.Set("PATCH", "br mac", `"02:00:00:00:0a:0c"`)
	heard(t, wires[0], "mac", at(5, "7000020000000a0c"))
	l.Set("PATCH", "br ports p1 stp 1", `{"port-priority":17}`)
	heard(t, wires[0], "port-priority", at(25, "1101"))
	reads("ports p1 stp 1 port-id", `"1101"`)
	l.Set("PATCH", "br stp 1 force-version", `"stp"`)
	heard(t, wires[0], "force-version", at(0, "00000000"))
	reads("ports p2 stp 1 oper-version", `"stp"`)
	l.Set("PATCH", "br stp 1 force-version", `"RSTP"`)
	heard(t, wires[0], "force-version again", at(0, "00000202"))

	wires[0].Puts(hello)
	reads("stp 1 root-id", `"1000.02:00:00:00:00:bb"`)
	reads("stp 1 root-port", `"p1"`)
	reads("stp 1 root-path-cost", `2`) // a veth's
	reads("ports p1 stp 1 role", `"root"`)
	reads("ports p1 stp 1 state", `"forwarding"`)
	l.Set("PATCH", "br ports p1 stp 1 path-cost", `40`)
	reads("stp 1 root-path-cost", `40`)
	reads("ports p1 stp 1 path-cost-source", `"configured"`)
	l.Set("DELETE", "br ports p1 stp 1 path-cost", "")
	reads("stp 1 root-path-cost", `2`)
	wires[0].Puts(hello)
	l.Set("PATCH", "br ports p1 stp 1 restricted-role", `true`)
	reads("ports p1 stp 1 role", `"alternate"`)
	reads("stp 1 root-id", `"7000.02:00:00:00:0a:0c"`)
	l.Set("PATCH", "br ports p1 stp 1 restricted-role", `false`)
}

// Tree state that depends on neighbours takes a moment longer.
func TestLeavesOfPortsInSpanningTrees(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Follow: true})
	l.Create("bridge", "br", `{"stp-enabled":true,"ports":[
		{"name":"p1","peer":"veth1","stp":[{"vlan":1,"admin-edge":true}]},
		{"name":"p2","peer":"veth2","stp":[{"vlan":1,"auto-edge":false}]},
		{"name":"p3","peer":"veth3","stp":[{"vlan":1,"point-to-point":"force-false","restricted-tcn":true}]}]}`)
	wires := l.Wires()
	state := func(port string) string { return strings.Trim(l.Read("br ports "+port+" stp 1 state"), `"`) }
	becomes := func(what, want string, is func() string) {
		t.Helper()
		netns.Eventually(t, pace.Stretch(15*time.Second), func() error {
			if got := is(); got != want {
				return fmt.Errorf("%s is %s, want %s", what, got, want)
			}
			return nil
		})
	}
	becomes("an edge port", "forwarding", func() string { return state("p1") })
	if s := state("p2"); s == "forwarding" {
		t.Errorf("a port that does not find out about edges is %s at once", s)
	}
	for i, want := range []string{"forwarding", "blocking"} {
		agree := rst(t, 61440)
		agree[4] = 0x48 // an agreement of a root port
		copy(agree[5:13], []byte{0x90})
		wires[i+1].Puts(stp.Frame(neighbour, 1, false, agree))
		port := fmt.Sprint("p", i+2)
		becomes("the port "+port+" that got an agreement", want, func() string { return state(port) })
	}
	changes := func() string { return l.Read("br stp 1 topology-changes") }
	before := changes()
	change := rst(t, 61440)
	change[4] = 0x49
	wires[2].Puts(stp.Frame(neighbour, 1, false, change)) // not believed
	wires[1].Puts(stp.Frame(neighbour, 1, false, rst(t, 61440)))
	if after := changes(); after != before {
		t.Errorf("changes of the topology: %s, then %s", before, after)
	}
	becomes("the port that an edge port was", "false", func() string {
		wires[0].Puts(stp.Frame(neighbour, 1, false, rst(t, 61440)))
		return l.Read("br ports p1 stp 1 oper-edge")
	})
}

func TestFatesOfBPDUs(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	bpdu := stp.Frame(neighbour, 1, false, rst(t, 61440))
	tagged := stp.Frame(neighbour, 10, true, rst(t, 61440))
	l.Create("bridge", "br", `{"ports":[
		{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},
		{"name":"p3","peer":"veth3","mode":"trunk","trunk":{"allowed":[{"vlanid":10}],"native-vlan-enabled":false}}]}`)
	walk(t, l, []step{{"without spanning trees, BPDUs are flooded", "veth1", bpdu, flood("br:p2 br:p3"), nil}})
	l.Set("PATCH", "br stp-enabled", "true")
	for _, c := range []struct {
		name, dev string
		frame     []byte
		want      string
	}{
		{"to the tree, though the port is closed", "veth1", bpdu, "br slowpath"},
		{"to the tree of the tag's VLAN", "veth3", tagged, "br slowpath"},
		{"with a tag at an access port", "veth1", tagged, "br tagged"},
		{"without one where there is no native VLAN", "veth3", bpdu, "br untagged"},
		{"of a VLAN that is not allowed", "veth3", stp.Frame(neighbour, 11, true, bpdu), "br not-allowed"},
		{"anything else at a closed port", "veth1", frame(one, two), "br stp-blocked"},
	} {
		if got := l.Run(c.dev, c.frame); got.Fate != c.want { // the trees send BPDUs meanwhile
			t.Errorf("%s: got %+v, want %s", c.name, got, c.want)
		}
	}
	l.Flood("veth2", bpdu, 500)
	if n := l.Fates("br")["bpdu-flood"]; n < 400 || n >= 500 {
		t.Errorf("of 500 BPDUs in a moment, %d were too many", n)
	}
	if got := l.Run("veth1", bpdu); got.Fate != "br slowpath" {
		t.Errorf("another port has %+v", got)
	}
}

func TestParametersThatCannotBe(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", threePorts)
	for _, c := range []struct{ words, body, want string }{
		{"br stp 1", `{"hello-time":10}`, "stp 1: max-message-age 20: must be at least 2 * (hello-time + 1) = 22 (802.1D, 17.14)"},
		{"br stp 1", `{"max-message-age":5}`, "max-message-age"},
		{"br stp 1", `{"forward-delay":3}`, "forward-delay"},
		{"br stp 4095", `{"priority":1}`, "vlan"},
		{"br ports p1 stp 1", `{"path-cost":0}`, "path-cost"},
		{"br ports p1 stp 1", `{"port-priority":256}`, "port-priority"},
	} {
		err := l.Try("PATCH", c.words, c.body)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.words, c.body, err, c.want)
		}
	}
	var allowed []string
	for vlan := 1; vlan <= 4094; vlan++ {
		allowed = append(allowed, fmt.Sprintf(`{"vlanid":%d}`, vlan))
	}
	var ports []string
	for i := range 5 {
		ports = append(ports, fmt.Sprintf(`{"name":"t%d","mode":"trunk","trunk":{"allowed":[%s]}}`, i, strings.Join(allowed, ",")))
	}
	err := l.TryCreate("bridge", "wide", `{"stp-enabled":true,"ports":[`+strings.Join(ports, ",")+`]}`)
	if want := "the ports are in 20470 VLANs in total, but at most 16384 can have spanning trees"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("too many trees: %v", err)
	}
}

// Trees are there without being configured, with the defaults of the model.
func TestTreesHaveTheDefaultsOfTheModel(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", `{"stp":[{"vlan":7}],"ports":[{"name":"p1","stp":[{"vlan":7}]}]}`)
	decode := func(words string, into any) {
		t.Helper()
		if err := json.NewDecoder(bytes.NewReader([]byte(l.Read("br " + words)))).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	var tree STP
	var port PortSTP
	decode("stp 7", &tree)
	decode("ports p1 stp 7", &port)
	if tree != defaultSTP(7) || port != defaultPortSTP(7) {
		t.Errorf("the model has %+v and %+v", tree, port)
	}
	if _, err := l.TryRead("br stp 1"); err == nil {
		t.Error("there is a tree without stp-enabled")
	}
	l.Set("PATCH", "br stp-enabled", "true")
	if got := l.Read("br stp 1 priority"); got != "32768" {
		t.Errorf("the priority of a tree without configuration reads %s", got)
	}
	if got := l.Read("br ports p1 stp 1 state"); got != `"disabled"` {
		t.Errorf("a port without peer is %s", got)
	}
	l.Set("PATCH", "br stp-enabled", "false")
	if _, err := l.TryRead("br stp 1"); err == nil {
		t.Error("the tree stays without stp-enabled")
	}
}

func TestAChangeOfTheTopologyForgetsAddresses(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Follow: true})
	l.Create("bridge", "br", `{"stp-enabled":true,"ports":[
		{"name":"p1","peer":"veth1","stp":[{"vlan":1,"admin-edge":true}]},
		{"name":"p2","peer":"veth2","stp":[{"vlan":1,"admin-edge":true}]},{"name":"p3","peer":"veth3"}]}`)
	wires := l.Wires()
	netns.Eventually(t, pace.Stretch(15*time.Second), func() error {
		if l.Read("br ports p1 stp 1 state") != `"forwarding"` || l.Read("br ports p2 stp 1 state") != `"forwarding"` {
			return fmt.Errorf("edge ports are not open")
		}
		return nil
	})
	l.Run("veth1", frame(one, two))
	l.Run("veth2", frame(two, one))
	wantShown(t, l, "1 "+one+" p1 dynamic", "1 "+two+" p2 dynamic")
	// Bridges replace stations, and one of them announces a topology change.
	hello := rst(t, 61440)
	wires[0].Puts(stp.Frame(neighbour, 1, false, hello))
	root := rst(t, 4096)
	root[4] |= 1
	wires[1].Puts(stp.Frame(net.HardwareAddr{2, 0, 0, 0, 0, 0xbb}, 1, false, root))
	netns.Eventually(t, pace.Stretch(15*time.Second), func() error {
		wires[1].Puts(stp.Frame(neighbour, 1, false, root))
		if shown := l.Read("br fdb entry"); strings.Contains(shown, one) {
			return fmt.Errorf("what was learned from port p1 is still there: %s", shown)
		}
		return nil
	})
}

// Trunks with thousands of VLANs: their trees open and close together, not one after the other.
func TestThousandsOfTrees(t *testing.T) {
	if !soak() {
		t.Skip("takes half a minute: POLYCUBE_SOAK is not set")
	}
	l := bpftest.New(t, bpftest.Options{Follow: true, Hosts: 4})
	var allowed, ports []string
	for vlan := 2; vlan <= 4000; vlan++ {
		allowed = append(allowed, fmt.Sprintf(`{"vlanid":%d}`, vlan))
	}
	for i := range 4 {
		ports = append(ports, fmt.Sprintf(`{"name":"t%d","peer":"veth%d","mode":"trunk","trunk":{"allowed":[%s]}}`, i, i+1, strings.Join(allowed, ",")))
	}
	l.Create("bridge", "br", `{"stp-enabled":true,"ports":[`+strings.Join(ports, ",")+`]}`)
	becomes := func(port, want string) {
		t.Helper()
		began := time.Now()
		netns.Eventually(t, patience, func() error {
			for _, vlan := range []int{1, 2, 4000} {
				if got := l.Read(fmt.Sprintf("br ports %s stp %d state", port, vlan)); got != want {
					return fmt.Errorf("port %s is %s in VLAN %d, want %s", port, got, vlan, want)
				}
			}
			return nil
		})
		t.Logf("port %s is %s after %v", port, want, time.Since(began))
	}
	becomes("t0", `"forwarding"`)
	becomes("t3", `"forwarding"`)
	l.Lab.Run("ip", "link", "set", "veth1", "down")
	becomes("t0", `"disabled"`)
	l.Lab.Run("ip", "link", "set", "veth1", "up")
	becomes("t0", `"forwarding"`)
	if shed := l.Shed("br"); shed > 0 {
		t.Errorf("%d BPDUs were shed", shed)
	}
}
