// SPDX-License-Identifier: Apache-2.0

// Command hostguard is an external service of Polycube in Go that blocks TCP connections by host name: programs copy the
// first packets of each connection to a ring, this process reads them, and its decision comes back as a map entry.
package main

import (
	"context"
	_ "embed" // the model and the programs
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ring"
	sdk "github.com/polycube/polycube/sdk/go"
)

var (
	//go:embed hostguard.yang
	model string
	//go:embed hostguard.tc.o
	tc []byte
	//go:embed hostguard.xdp.o
	xdp []byte
)

func main() { sdk.Main(service()) }

func service() sdk.Service[*guard] {
	return sdk.Service[*guard]{
		Name: "hostguard", Model: model, Objects: map[cube.Hook][]byte{cube.TC: tc, cube.XDP: xdp},
		New: func(env sdk.Env) (*guard, error) { return newGuard(env), nil },
	}
}

// config is the decoded configuration.
type config struct {
	FirstPackets uint8 `json:"first-packets"`
	Blocked      []struct {
		Name string `json:"name"`
	} `json:"blocked"`
}

// decision is struct decision of the program.
type decision struct {
	Copied               uint32
	Verdict, ClientIsLow uint16
}

// The verdicts of the program.
const (
	pass  = 1
	block = 2
)

// guard is a cube.
type guard struct {
	sdk.Typed[config]
	env         sdk.Env
	connections sdk.Table[connection, decision]
	seen        *assembly // of the reader

	mu      sync.Mutex
	blocked map[string]bool
	hosts   hosts
	packets uint64
	unnamed uint64

	// stop ends the reader and waits for it; nil before the first Commit.
	stop func()
}

func newGuard(env sdk.Env) *guard {
	g := &guard{env: env, connections: sdk.OpenTable[connection, decision](env, "connections"), seen: newAssembly()}
	g.PrepareConfig = g.prepare
	return g
}

// prepare sets a constant. The names are used by this process alone.
func (g *guard) prepare(_ context.Context, old, after *config) (sdk.Plan, error) {
	return sdk.Plan{
		Constants: map[string]any{"first_packets": uint32(after.FirstPackets)},
		Commit: func(ctx context.Context) error {
			g.block(after)
			return g.start(ctx)
		},
		Undo: func(context.Context) error {
			if old != nil {
				g.block(old)
			}
			return nil
		},
	}, nil
}

func (g *guard) block(c *config) {
	names := map[string]bool{}
	for _, b := range c.Blocked {
		names[b.Name] = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.blocked = names
}

// start reads the ring until the cube is closed. Packets from before a restart are of no use: their connections have passed
// the packets that would be needed.
func (g *guard) start(ctx context.Context) error {
	if g.stop != nil {
		return nil
	}
	reader, err := sdk.OpenRing(ctx, g.env, "copies")
	if err != nil {
		return err
	}
	if err := reader.Skip(); err != nil {
		return errors.Join(err, reader.Close())
	}
	reading, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := reader.Run(reading, func(p *ring.Packet) { g.inspect(reading, p) }); err != nil && !errors.Is(err, ring.ErrTaken) {
			g.env.Logger().Error("the ring is not read any more", "err", err)
		}
		_ = reader.Close() // the cube is closed
	}()
	g.stop = func() { cancel(); <-ended }
	return nil
}

// Close stops the reader.
func (g *guard) Close() {
	if g.stop != nil {
		g.stop()
	}
}

// inspect looks for the host name in what a client has sent, and decides on the connection.
func (g *guard) inspect(ctx context.Context, p *ring.Packet) {
	key, s := g.seen.add(p)
	if s == nil || s.decided {
		return
	}
	name, is := hostName(s.sent)
	verdict := g.judge(name, is)
	if is == more {
		return
	}
	s.decided, s.sent = true, nil
	if err := g.connections.Set(ctx, key, decision{Verdict: verdict}); err != nil && ctx.Err() == nil {
		g.env.Logger().Warn("a connection is not decided", "host", name, "err", err)
	}
	if verdict == block {
		g.env.Logger().Info("a connection is blocked", "host", name)
	}
}

// judge counts a packet and returns the verdict on its connection.
func (g *guard) judge(name string, is found) uint16 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.packets++
	switch is {
	case none:
		g.unnamed++
	case named:
		blocked := matches(g.blocked, name)
		g.hosts.count(name, blocked)
		if blocked {
			return block
		}
	case more:
	}
	return pass
}

// matches reports whether a name, or *. and a domain above it, is in a set.
func matches(set map[string]bool, name string) bool {
	if set[name] {
		return true
	}
	for {
		_, above, ok := strings.Cut(name, ".")
		if !ok {
			return false
		}
		if set["*."+above] {
			return true
		}
		name = above
	}
}

// State lists the hosts, and counts.
func (g *guard) State(context.Context, []string) (any, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return map[string]any{
		"host":       g.hosts.list(),
		"inspection": map[string]any{"packets": strconv.FormatUint(g.packets, 10), "unnamed": strconv.FormatUint(g.unnamed, 10)},
	}, nil
}
