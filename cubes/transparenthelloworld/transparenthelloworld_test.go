// SPDX-License-Identifier: Apache-2.0

package transparenthelloworld

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestAnUnknownActionIsRefused(t *testing.T) {
	var a Action
	if err := a.UnmarshalText([]byte("BOUNCE")); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("decoding BOUNCE: %v", err)
	}
}

// env records what the cube sends.
type env struct {
	cube.Env // features that this cube does not use are missing

	level slog.Level
	logs  bytes.Buffer
	sent  []cube.PacketOut
	err   error
}

func (e *env) Name() string    { return "th" }
func (e *env) Type() cube.Type { return cube.TypeTC }
func (e *env) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&e.logs, &slog.HandlerOptions{Level: e.level}))
}
func (e *env) Send(p *cube.PacketOut) error {
	e.sent = append(e.sent, *p)
	return e.err
}

func TestPacketsOfTheSlowPathGoOn(t *testing.T) {
	data, offload := []byte("a frame of many bytes"), cube.Offload{GSOSize: 1448, GSOSegs: 3}
	trip := cube.Trip{Hops: 9, Netdev: 4711, FlowHash: 0x12345678, Tenant: 77, Turned: true, Offered: true, OfferedFrom: 3}
	tests := []struct {
		name string
		in   cube.PacketIn
		err  error
		sent []cube.PacketOut
		log  string
	}{
		{"on their way in", cube.PacketIn{Port: 3, Direction: cube.Ingress, Reason: 34, TrafficClass: 7, Trip: trip, Length: len(data), Data: data}, nil,
			[]cube.PacketOut{{Direction: cube.Ingress, TrafficClass: 7, Trip: trip, Data: data}}, ""},
		{"on their way out, with their offload state", cube.PacketIn{Direction: cube.Egress, Offload: offload, Length: len(data), Data: data}, nil,
			[]cube.PacketOut{{Direction: cube.Egress, Offload: offload, Data: data}}, ""},
		{"not when the end is missing", cube.PacketIn{Length: len(data) + 1, Data: data}, nil, nil, "larger than the slow path accepts"},
		{"not when there is no way", cube.PacketIn{Length: len(data), Data: data}, cube.ErrNotFound,
			[]cube.PacketOut{{Data: data}}, "cannot be forwarded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &env{err: tt.err}
			newHello(e).PacketIn(&tt.in)
			if !reflect.DeepEqual(e.sent, tt.sent) {
				t.Errorf("sent %+v, want %+v", e.sent, tt.sent)
			}
			if logs := e.logs.String(); (logs == "") != (tt.log == "") || !strings.Contains(logs, tt.log) {
				t.Errorf("logged %q, want %q", logs, tt.log)
			}
		})
	}
}

func TestTheParentIsLogged(t *testing.T) {
	e := &env{level: slog.LevelDebug}
	newHello(e).ParentChanged(cube.Parent{Name: "br1:p1", Peer: "veth1", Netdev: "veth1", MTU: 1400,
		MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}})
	const want = `msg=parent name=br1:p1 peer=veth1 netdev=veth1 mac=02:00:00:00:00:01 mtu=1400 addresses=[10.0.0.1/24]`
	if logs := e.logs.String(); !strings.Contains(logs, want) {
		t.Errorf("logged %q, want %q", logs, want)
	}
}
