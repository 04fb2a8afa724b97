// SPDX-License-Identifier: Apache-2.0

package bridge

// Bridges of several implementations in one namespace, connected by links that can be cut.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// patience is how long a test waits for events that take a fraction of it on a quiet machine.
var patience = pace.Stretch(60 * time.Second)

// mesh is a lab with bridges.
type mesh struct {
	*bpftest.Lab
	t       *testing.T
	bridges map[string]maker
	// ends are the devices of a link: of "a-b", that of a and that of b.
	ends  map[string][2]string
	wires []*bpftest.Wire
}

// maker is a make of bridges.
type maker interface {
	// add makes a device a port.
	add(dev string)
	// state is the state of a port in a VLAN, in the words of the model.
	state(dev string, vlan int) string
	// root is the identifier of the root in a VLAN, as 8000.020000000001; empty when it is not known.
	root(vlan int) string
}

func newMesh(t *testing.T, o bpftest.Options) *mesh {
	o.Follow = true
	l := bpftest.New(t, o)
	return &mesh{Lab: l, t: t, bridges: map[string]maker{}, ends: map[string][2]string{}, wires: l.Wires()}
}

// sh runs a command in the namespace of the bridges.
func (m *mesh) sh(name string, args ...string) string {
	m.t.Helper()
	return m.Lab.Lab.Run(name, args...)
}

// link joins two bridges.
func (m *mesh) link(a, b string) {
	m.t.Helper()
	ends := [2]string{a + "to" + b, b + "to" + a}
	m.sh("ip", "link", "add", "name", ends[0], "type", "veth", "peer", "name", ends[1])
	for _, dev := range ends {
		m.sh("ip", "link", "set", dev, "up")
	}
	m.ends[a+"-"+b] = ends
	m.bridges[a].add(ends[0])
	m.bridges[b].add(ends[1])
}

// remove removes a link, both ends at once.
func (m *mesh) remove(link string) {
	m.t.Helper()
	m.sh("ip", "link", "del", m.ends[link][0])
	delete(m.ends, link)
}

func (m *mesh) cut(link string) { m.sh("ip", "link", "set", m.ends[link][0], "down") }

func (m *mesh) mend(link string) { m.sh("ip", "link", "set", m.ends[link][0], "up") }

// states returns the states of both ends of links, as "a-b" to "forwarding blocking".
func (m *mesh) states(vlan int, links map[string]string) map[string]string {
	out := map[string]string{}
	for name := range links {
		ends := m.ends[name]
		a, b, _ := strings.Cut(name, "-")
		out[name] = m.bridges[a].state(ends[0], vlan) + " " + m.bridges[b].state(ends[1], vlan)
	}
	return out
}

// becomes waits until the links are as wanted: "-" is open at both ends, "x" closed at one of them, "<" and ">" at the first
// and the second, and "0" is cut. It returns how long that took.
func (m *mesh) becomes(vlan int, root string, want map[string]string) time.Duration {
	m.t.Helper()
	began := time.Now()
	netns.Eventually(m.t, patience, func() error {
		for name, b := range m.bridges {
			if is := b.root(vlan); root != "" && is != "" && is != root {
				return fmt.Errorf("VLAN %d: bridge %s takes %s for the root, want %s; links are %v", vlan, name, is, root, m.states(vlan, want))
			}
		}
		states := m.states(vlan, want)
		for link, form := range want {
			if got := formOf(states[link]); got != form && !(form == "x" && (got == "<" || got == ">")) {
				return fmt.Errorf("VLAN %d: link %s is %q (%s), want %q; all: %v", vlan, link, states[link], got, form, states)
			}
		}
		return nil
	})
	return time.Since(began)
}

func formOf(states string) string {
	switch states {
	case "forwarding forwarding":
		return "-"
	case "blocking forwarding":
		return "<"
	case "forwarding blocking":
		return ">"
	case "disabled disabled", "disabled blocking", "blocking disabled": // Open vSwitch reports ports that are down as discarding
		return "0"
	}
	return "?"
}

// once sends numbered broadcasts from the first host and checks that each arrives at the others exactly once, as soon
// as the first one does.
func (m *mesh) once() {
	m.t.Helper()
	const frames = 200
	run := uint32(time.Now().UnixNano())
	numbered := func(i int) []byte {
		b := binary.BigEndian.AppendUint32([]byte("numbered"), run)
		return pkt.Eth(one, pkt.Broadcast).Data(append(binary.BigEndian.AppendUint32(b, uint32(i)), make([]byte, 40)...)).Bytes()
	}
	isOurs := func(f []byte) bool {
		return len(f) >= 30 && string(f[14:22]) == "numbered" && binary.BigEndian.Uint32(f[22:]) == run
	}
	first := m.probe(numbered, isOurs)
	for i := range frames {
		m.wires[0].Puts(numbered(first + i))
	}
	for host, w := range m.wires[1:] {
		seen := map[int]int{}
		for last := first + frames - 1; seen[last] == 0; {
			f, err := w.Recv(isOurs, bpftest.Patience)
			if err != nil {
				m.t.Fatalf("host %d: got %d of %d frames: %v", host+2, len(seen), frames, err)
			}
			seen[int(binary.BigEndian.Uint32(f[26:]))]++
		}
		for { // copies of the last ones
			f, err := w.Recv(isOurs, 50*time.Millisecond)
			if err != nil {
				break
			}
			seen[int(binary.BigEndian.Uint32(f[26:]))]++
		}
		for i := first; i < first+frames; i++ {
			if seen[i] != 1 {
				m.t.Errorf("host %d: frame %d arrived %d times", host+2, i-first, seen[i])
			}
		}
	}
}

// probe sends until every host receives: their own ports open shortly after those between the bridges.
func (m *mesh) probe(numbered func(int) []byte, isOurs func([]byte) bool) (next int) {
	m.t.Helper()
	waits := map[*bpftest.Wire]bool{}
	for _, w := range m.wires[1:] {
		waits[w] = true
	}
	netns.Eventually(m.t, patience, func() error {
		m.wires[0].Puts(numbered(next))
		next++
		for w := range waits {
			if _, err := w.Recv(isOurs, 20*time.Millisecond); err == nil {
				delete(waits, w)
			}
		}
		if len(waits) > 0 {
			return fmt.Errorf("%d hosts get no frames: %s", len(waits), m.fates())
		}
		return nil
	})
	return next
}

// fates returns the fates of frames in the cubes.
func (m *mesh) fates() string {
	var out []string
	for name, b := range m.bridges {
		if _, ok := b.(*ours); ok {
			out = append(out, fmt.Sprint(name, " ", m.Fates(name)))
		}
	}
	return strings.Join(out, "; ")
}

// ours is a cube.
type ours struct {
	m    *mesh
	name string
	port string // members of each port's configuration
}

func (m *mesh) cube(name, body string) *ours {
	m.t.Helper()
	m.Create("bridge", name, body)
	c := &ours{m: m, name: name}
	m.bridges[name] = c
	return c
}

func (c *ours) add(dev string) {
	c.m.t.Helper()
	c.m.Set("POST", c.name+" ports "+dev, fmt.Sprintf(`{"peer":%q%s}`, dev, c.port))
}

// read decodes a part of the cube.
func (c *ours) read(words string, into any) {
	c.m.t.Helper()
	text := c.m.Read(c.name + " " + words)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		c.m.t.Fatalf("%s %s: %v: %s", c.name, words, err, text)
	}
}

func (c *ours) state(dev string, vlan int) (state string) {
	c.read(fmt.Sprintf("ports %s stp %d state", dev, vlan), &state)
	return state
}

func (c *ours) root(vlan int) (root string) {
	c.read(fmt.Sprintf("stp %d root-id", vlan), &root)
	return strings.ReplaceAll(root, ":", "")
}

// linux is a bridge of the kernel.
type linux struct {
	m    *mesh
	name string
}

// shortest are the shortest possible times, in hundredths of a second.
var shortest = []string{"forward_delay", "400", "hello_time", "100", "max_age", "600"}

func (m *mesh) linux(name, mac string, priority int, times []string) *linux {
	m.t.Helper()
	b := &linux{m, "linux-" + name}
	m.sh("ip", append([]string{"link", "add", "name", b.name, "address", mac, "type", "bridge", "stp_state", "1", "priority",
		fmt.Sprint(priority)}, times...)...)
	m.sh("ip", "link", "set", b.name, "up")
	m.bridges[name] = b
	return b
}

func (b *linux) add(dev string) {
	b.m.t.Helper()
	b.m.sh("ip", "link", "set", dev, "master", b.name)
}

func (b *linux) state(dev string, _ int) string {
	b.m.t.Helper()
	var links []struct{ Ifname, State string }
	if err := json.Unmarshal([]byte(b.m.sh("bridge", "-j", "link", "show", "dev", dev)), &links); err != nil || len(links) != 1 {
		b.m.t.Fatalf("state of %s: %v, %v", dev, links, err)
	}
	return links[0].State
}

// root returns the root of a bridge that is the root itself, and "" for one with a root port: iproute2 shows the bridge
// itself as root in either case.
func (b *linux) root(int) string {
	b.m.t.Helper()
	var links []struct {
		Linkinfo struct {
			InfoData struct {
				BridgeID string `json:"bridge_id"`
				RootPort int    `json:"root_port"`
			} `json:"info_data"`
		}
	}
	if err := json.Unmarshal([]byte(b.m.sh("ip", "-j", "-d", "link", "show", b.name)), &links); err != nil || len(links) != 1 {
		b.m.t.Fatalf("root of %s: %v, %v", b.name, links, err)
	}
	data := links[0].Linkinfo.InfoData
	if data.RootPort != 0 {
		return ""
	}
	id, mac, _ := strings.Cut(data.BridgeID, ".")
	id = fmt.Sprintf("%04s.", id)
	for part := range strings.SplitSeq(mac, ":") {
		id += fmt.Sprintf("%02s", part)
	}
	return id
}

// soak reports whether tests may take minutes.
func soak() bool { return os.Getenv("POLYCUBE_SOAK") != "" }
