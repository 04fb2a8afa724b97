// SPDX-License-Identifier: Apache-2.0

// Command ratelimit is an external service of Polycube in Go: a daemon starts it, or it listens for remote ones. It is
// an example of the SDK; ratelimit.bpf.c does the work.
package main

import (
	"context"
	_ "embed" // the model and the programs
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	sdk "github.com/polycube/polycube/sdk/go"
)

var (
	//go:embed ratelimit.yang
	model string
	//go:embed ratelimit.tc.o
	tc []byte
	//go:embed ratelimit.xdp.o
	xdp []byte
)

func main() { sdk.Main(service()) }

func service() sdk.Service[*limiter] {
	return sdk.Service[*limiter]{
		Name: "ratelimit", Model: model, Objects: map[cube.Hook][]byte{cube.TC: tc, cube.XDP: xdp},
		New: func(env sdk.Env) (*limiter, error) { return newLimiter(env), nil },
	}
}

// config is the decoded configuration.
type config struct {
	Rate  uint32 `json:"rate"`
	Burst uint32 `json:"burst"`
}

// sender is an entry of the map, struct sender in C.
type sender struct{ Bucket, Packets, Dropped, Told uint64 }

// over is the type of the message that a sender exceeds its rate.
const over = 1

// limiter is a cube.
type limiter struct {
	sdk.Typed[config]
	env     sdk.Env
	senders sdk.Table[uint64, sender]
}

func newLimiter(env sdk.Env) *limiter {
	l := &limiter{env: env, senders: sdk.OpenTable[uint64, sender](env, "sender_buckets")}
	l.PrepareConfig = l.prepare
	return l
}

// prepare sets a constant, with which the program is relinked.
func (l *limiter) prepare(_ context.Context, _, after *config) (sdk.Plan, error) {
	limit, err := bucket.New(uint64(after.Rate), time.Second, after.Burst)
	return sdk.Plan{Constants: map[string]any{"limit": limit}}, err
}

// State lists the senders.
func (l *limiter) State(ctx context.Context, path []string) (any, error) {
	if len(path) > 0 && path[0] != "senders" {
		return nil, nil
	}
	type entry struct {
		Address string `json:"address"`
		Packets string `json:"packets"`
		Dropped string `json:"dropped"`
	}
	entries := []entry{}
	var err error
	for address, s := range l.senders.All(ctx, &err) {
		entries = append(entries, entry{mac(address), strconv.FormatUint(s.Packets, 10), strconv.FormatUint(s.Dropped, 10)})
	}
	return map[string]any{"senders": map[string]any{"sender": entries}}, err
}

// Action removes all senders; it is the only action.
func (l *limiter) Action(ctx context.Context, path []string, _ json.RawMessage) (cube.ActionResult, error) {
	if len(path) != 2 || path[1] != "forget" {
		return cube.ActionResult{}, fmt.Errorf("action %v: %w", path, cube.ErrNotFound)
	}
	return cube.ActionResult{}, l.senders.Clear(ctx)
}

// Notify is called for senders that exceed their rate.
func (l *limiter) Notify(kind uint32, data []byte) {
	if kind == over && len(data) >= 8 {
		l.env.Logger().Warn("a sender exceeds its rate", "address", mac(binary.LittleEndian.Uint64(data)))
	}
}

// mac is an address as in programs, first byte least significant.
func mac(address uint64) string {
	return net.HardwareAddr(binary.LittleEndian.AppendUint64(nil, address)[:6]).String()
}
