// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

func (e *everything) PeerChanged(port string, p cube.Peer) {
	e.step("peer %s %s %d %v %v %d %d", port, p.Name, p.Index, p.MAC, p.Addresses, p.MTU, p.Speed)
}

func (e *everything) LinkChanged(port string, works bool) { e.step("link %s %v", port, works) }

func (e *everything) Page(_ context.Context, path []string, q cube.PageQuery) (cube.Page, error) {
	if q.After == "old" {
		return cube.Page{}, fmt.Errorf("it has another size: %w", cube.ErrStale)
	}
	return cube.Page{Entries: []json.RawMessage{fmt.Appendf(nil, `{"path":%q,"limit":%d}`, path[0], q.Limit)}, Next: q.After + "x"}, nil
}

// other answers requests that are not about maps; nil if the message is none.
func (h *host) other(m *pb.ToDaemon) *pb.ToService {
	switch {
	case m.GetFloods() != nil:
		out := &pb.FloodsReply{Id: m.GetFloods().GetId()}
		if len(m.GetFloods().GetWrite().GetSets()) > 1 {
			out.Fault = &pb.Fault{Code: uint32(codes.ResourceExhausted), Message: "no room for more sets"}
		}
		h.heard = append(h.heard, m)
		return &pb.ToService{Message: &pb.ToService_Floods{Floods: out}}
	case m.GetRoute() != nil:
		out := &pb.RouteReply{Id: m.GetRoute().GetId(), Netdev: "eth0", Index: 3, Gateway: "10.0.0.254", Source: "10.0.0.1", Mac: []byte{2, 0, 0, 0, 0, 9}, Mtu: 1500}
		if m.GetRoute().GetDestination() != "192.0.2.1" {
			out = &pb.RouteReply{Id: out.GetId(), Fault: &pb.Fault{Code: uint32(codes.NotFound), Message: "no route"}}
		}
		return &pb.ToService{Message: &pb.ToService_Route{Route: out}}
	}
	return nil
}

func TestManyEntriesAreReadAndWrittenAtOnce(t *testing.T) {
	h := connect(t)
	table, ctx := h.cube.table, t.Context()
	all, keys := map[uint32]pair{}, []uint32{}
	for n := range uint32(20) {
		all[n], keys = pair{A: uint16(n), B: n}, append(keys, n)
	}
	if err := table.SetAll(ctx, all); err != nil {
		t.Fatal(err)
	}
	if got, err := table.GetAll(ctx, append(keys, 99)...); err != nil || !maps.Equal(got, all) {
		t.Errorf("the entries are %v, %v", got, err)
	}
	for _, limit := range []int{1, 7, 20} {
		seen, after := map[uint32]pair{}, ""
		for more := true; more; more = after != "" {
			entries, next, err := table.Page(ctx, after, limit)
			if err != nil || len(entries) > limit {
				t.Fatalf("by %d: %d entries, %v", limit, len(entries), err)
			}
			for _, e := range entries {
				seen[e.Key] = e.Value
			}
			after = next
		}
		if !maps.Equal(seen, all) {
			t.Errorf("by %d the entries are %v", limit, seen)
		}
	}
	if got, err := table.Take(ctx, 4, 5, 99); err != nil || len(got) != 2 || got[5].B != 5 {
		t.Errorf("taken are %v, %v", got, err)
	}
	if n, err := table.DeleteAll(ctx, keys...); err != nil || n != 18 {
		t.Errorf("%d entries were deleted, want 18 (%v)", n, err)
	}
	if there, err := table.Delete(ctx, 1); err != nil || there {
		t.Errorf("an entry that is not there was deleted: %v, %v", there, err)
	}
}

func TestFloodsAndRoutesAreRequests(t *testing.T) {
	h := connect(t)
	env, ctx := h.cube.env, t.Context()
	one := []cube.FloodMember{{Port: 1}, {Port: 2, Tagged: true}}
	if err := env.Floods(ctx, Floods{Sets: map[uint32][]cube.FloodMember{5: one}}); err != nil {
		t.Error(err)
	}
	if err := env.Floods(ctx, Floods{Sets: map[uint32][]cube.FloodMember{5: one, 6: one}}); !errors.Is(err, cube.ErrFull) {
		t.Errorf("too many sets: %v", err)
	}
	if err := env.Floods(ctx, Floods{}); err != nil {
		t.Errorf("nothing to change: %v", err)
	}
	h.mu.Lock()
	got := fmt.Sprint(len(h.heard), h.heard[0].GetFloods().GetCube(), h.heard[0].GetFloods().GetWrite().GetSets()[0].GetTagged())
	h.mu.Unlock()
	if got != "2 5 [2]" {
		t.Errorf("the daemon heard %s", got)
	}
	r, err := env.Route(ctx, netip.MustParseAddr("192.0.2.1"))
	want := Route{Netdev: "eth0", Index: 3, Gateway: netip.MustParseAddr("10.0.0.254"), Source: netip.MustParseAddr("10.0.0.1"),
		MAC: net.HardwareAddr{2, 0, 0, 0, 0, 9}, MTU: 1500}
	if err != nil || fmt.Sprint(r) != fmt.Sprint(want) {
		t.Errorf("the route is %v, want %v (%v)", r, want, err)
	}
	if _, err := env.Route(ctx, netip.MustParseAddr("192.0.2.2")); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("no route: %v", err)
	}
}

func TestPeersLinksAndPages(t *testing.T) {
	h := connect(t)
	h.tell(&pb.ToService{Message: &pb.ToService_Peer{Peer: &pb.PeerChanged{Cube: 5, Port: "p1", Name: "eth0", Netdev: "eth0", Index: 3,
		Mac: []byte{2, 0, 0, 0, 0, 1}, Addresses: []string{"10.0.0.1/24"}, Mtu: 1500, Speed: 1000}}})
	h.tell(&pb.ToService{Message: &pb.ToService_Link{Link: &pb.LinkChanged{Cube: 5, Port: "p1", Up: true}}})
	h.cube.did(t, "peer p1 eth0 3 02:00:00:00:00:01 [10.0.0.1/24] 1500 1000", "link p1 true")
	page, err := h.client.Page(t.Context(), &pb.PageRequest{Cube: 5, Path: []string{"list"}, After: "a", Limit: 7})
	if err != nil || page.GetNext() != "ax" || string(page.GetEntries()[0]) != `{"path":"list","limit":7}` {
		t.Errorf("the page is %v, %v", page, err)
	}
	if _, err := h.client.Page(t.Context(), &pb.PageRequest{Cube: 5, Path: []string{"list"}, After: "old"}); status.Code(err) != codes.Aborted {
		t.Errorf("a position of before: %v", err)
	}
}
