// SPDX-License-Identifier: Apache-2.0

package datapath

// Copies over long paths, and copies in loops.

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// flooder makes a cube with five ports that floods what it receives, with the flood verdict or to a set.
func (b *bench) flooder(service string) *Node {
	b.t.Helper()
	if service == "probe" {
		return b.cube(service, 5, map[string]any{"what": uint32(2)})
	}
	c := b.cube(service, 5, map[string]any{"access": uint32(1<<5 - 1), "vid": uint32(100)})
	var all []cube.FloodMember
	for p := range uint16(5) {
		all = append(all, cube.FloodMember{Port: p})
	}
	b.floods(c, map[uint32][]cube.FloodMember{100: all})
	return c
}

// TestAFloodInAClosedLoopEndsAtTheHopLimit: nothing else fails, so nothing else is counted. Two links between two
// cubes, a link from a cube to itself, and a ring each have two directions, so two copies end.
func TestAFloodInAClosedLoopEndsAtTheHopLimit(t *testing.T) {
	for name, link := range map[string]func(b *bench, service string) []*Node{
		"two links": func(b *bench, service string) []*Node {
			c := []*Node{b.flooder(service), b.flooder(service)}
			b.link(c[0], 1, c[1], 1)
			b.link(c[0], 2, c[1], 2)
			return c
		},
		"to itself": func(b *bench, service string) []*Node {
			c := b.flooder(service)
			b.link(c, 1, c, 2)
			return []*Node{c}
		},
		"a ring": func(b *bench, service string) []*Node {
			c := []*Node{b.flooder(service), b.flooder(service), b.flooder(service)}
			for i := range c {
				b.link(c[i], 1, c[(i+1)%len(c)], 2)
			}
			return c
		},
	} {
		for _, service := range []string{"probe", "sets"} {
			t.Run(name+" of "+service, func(t *testing.T) {
				everywhere(t, func(t *testing.T, b *bench) {
					b.withHelpers()
					cubes := link(b, service)
					a := b.host("a", "", cubes[0], 0)
					b.host("z", "", cubes[len(cubes)-1], 4)
					b.commit()
					b.send(a, frame("round and round"))
					sum := func(fate string) (n uint64) {
						for _, c := range cubes {
							n += b.fate(c, fate)
						}
						return n
					}
					netns.Eventually(t, soon, func() error {
						if got := sum("hop-limit"); got != 2 {
							return fmt.Errorf("%d copies ended at the hop limit, want 2", got)
						}
						return nil
					})
					if failed, shed := sum("copy-failed"), sum("slowpath-shed"); failed+shed != 0 {
						t.Errorf("%d copies are said to have failed and %d to have been shed, and none was", failed, shed)
					}
				})
			})
		}
	}
}

// TestAFloodReachesTheEndOfALongLine: cubes joined by wires and by pairs of netdevs, each with a host.
func TestAFloodReachesTheEndOfALongLine(t *testing.T) {
	const length = 12
	for _, service := range []string{"probe", "sets"} {
		t.Run(service, func(t *testing.T) {
			in(t, inlined, func(t *testing.T, b *bench) {
				b.withHelpers()
				var line []*Node
				for i := range length {
					c := b.flooder(service)
					line = append(line, c)
					b.netdevPair(fmt.Sprintf("idle%d", i), "i")
					c.Ports[3].Peer = Peer{Netdev: fmt.Sprintf("idle%d", i)}
					switch {
					case i == 0:
					case i%4 == 0:
						b.netdevPair(fmt.Sprintf("l%d", i), "r")
						line[i-1].Ports[1].Peer, c.Ports[2].Peer = Peer{Netdev: fmt.Sprintf("l%d", i)}, Peer{Netdev: fmt.Sprintf("l%dr", i)}
						b.netdev(fmt.Sprintf("l%dr", i))
					default:
						b.link(line[i-1], 1, c, 2)
					}
				}
				a, z := b.host("a", "", line[0], 0), b.host("z", "", line[length-1], 0)
				b.commit()
				listener := b.listeners(z)[0]
				for range 3 {
					b.send(a, frame("far"))
					b.receives(listener, "the host at the end", frame("far"))
				}
				for i, c := range line {
					if n := b.fate(c, "copy-failed") + b.fate(c, "slowpath-shed") + b.fate(c, "hop-limit"); n != 0 {
						t.Errorf("cube %d lost %d copies", i, n)
					}
				}
			})
		})
	}
}

// netdevPair makes a veth pair, NAME and NAME with the suffix, and adds the first one to the graph.
func (b *bench) netdevPair(name, suffix string) {
	b.t.Helper()
	b.lab.Run("ip", "link", "add", name, "type", "veth", "peer", "name", name+suffix)
	for _, dev := range []string{name, name + suffix} {
		b.lab.Run("ip", "link", "set", dev, "up")
	}
	b.netdev(name)
}
