// SPDX-License-Identifier: Apache-2.0

package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/extservice"
)

// numbers is a service whose list has the numbers below n, with positions that are numbers.
func numbers(t *testing.T, n int, part *func(*pb.PageRequest) *pb.PageResponse) *instance {
	t.Helper()
	d := describe(t)
	d.Pages = true
	s := &extservice.Server{Description: d, Part: func(_ *extservice.Cube, r *pb.PageRequest) (*pb.PageResponse, error) {
		if part != nil && *part != nil {
			return (*part)(r), nil
		}
		from, err := strconv.Atoi("0" + r.GetAfter())
		if err != nil {
			return nil, status.Error(map[bool]codes.Code{true: codes.Aborted, false: codes.InvalidArgument}[r.GetAfter() == "old"], "not a position")
		}
		out := &pb.PageResponse{}
		to := min(n, from+int(r.GetLimit()))
		for i := from; i < to; i++ {
			out.Entries = append(out.Entries, fmt.Appendf(nil, `{"number":%d}`, i))
		}
		if to < n {
			out.Next = strconv.Itoa(to)
		}
		return out, nil
	}}
	l, err := begin(t, Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, l, newEnv(t, "c1", nil))
}

// Whatever the filter and the size of a page, each entry is returned once, and no page is larger than requested.
func TestPagesOfAServiceAreItsList(t *testing.T) {
	const n = 3000
	i := numbers(t, n, nil)
	for _, tt := range []struct{ limit, every int }{{n + 1, 1}, {1000, 1}, {7, 100}, {1000, 2}, {50, 1}, {1, 1500}, {10, n + 1}} {
		var got []int
		after := ""
		for pages := 0; ; pages++ {
			q := cube.PageQuery{After: after, Limit: tt.limit}
			if tt.every > 1 {
				q.Matches = func(e json.RawMessage) bool { return numberOf(t, e)%tt.every == 0 }
			}
			page, err := i.Page(t.Context(), []string{"numbers"}, q)
			if err != nil || len(page.Entries) > tt.limit || pages > n {
				t.Fatalf("%+v after %q: %d entries, %v", tt, after, len(page.Entries), err)
			}
			for _, e := range page.Entries {
				got = append(got, numberOf(t, e))
			}
			if after = page.Next; after == "" {
				break
			}
		}
		for k, number := range got {
			if number != k*tt.every {
				t.Fatalf("%+v: entry %d is %d", tt, k, number)
			}
		}
		if want := (n + tt.every - 1) / tt.every; len(got) != want {
			t.Errorf("%+v: %d entries, want %d", tt, len(got), want)
		}
	}
	if _, err := i.Page(t.Context(), nil, cube.PageQuery{After: "x", Limit: 1}); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("a position that is none: %v", err)
	}
	if _, err := i.Page(t.Context(), nil, cube.PageQuery{After: "old", Limit: 1}); !errors.Is(err, cube.ErrStale) {
		t.Errorf("a position of before: %v", err)
	}
}

func numberOf(t *testing.T, e json.RawMessage) int {
	t.Helper()
	var entry struct{ Number int }
	if err := json.Unmarshal(e, &entry); err != nil {
		t.Fatal(err)
	}
	return entry.Number
}

func TestPagesThatAreNoneDegradeTheCube(t *testing.T) {
	var part func(*pb.PageRequest) *pb.PageResponse
	for _, tt := range []struct {
		answer *pb.PageResponse
		says   string
	}{
		{&pb.PageResponse{Entries: [][]byte{[]byte(`{}`), []byte(`{}`), []byte(`{}`)}}, "the page has 3 entries, the limit is 2"},
		{&pb.PageResponse{Next: "7"}, "is the one before it"},
		{&pb.PageResponse{Next: "a b"}, "without blanks"},
		{&pb.PageResponse{Next: strings.Repeat("x", maxNext+1)}, "up to 512 bytes"},
		{&pb.PageResponse{Entries: [][]byte{[]byte(`[]`)}}, "is not a JSON object"},
		{&pb.PageResponse{Entries: [][]byte{nil}}, "is empty"},
		{&pb.PageResponse{Entries: [][]byte{[]byte(`{"a":`)}}, "is not JSON"},
		{&pb.PageResponse{Entries: [][]byte{fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", maxDocument-100)), fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", 200))}}, "more than 8388608 bytes"},
	} {
		i := numbers(t, 1, &part)
		part = func(*pb.PageRequest) *pb.PageResponse { return tt.answer }
		_, err := i.Page(t.Context(), nil, cube.PageQuery{After: "7", Limit: 2})
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(i.env.(*fakeEnv).degraded, tt.says) {
			t.Errorf("%v, degraded %q; want %q", err, i.env.(*fakeEnv).degraded, tt.says)
		}
	}
}

// A hash is read by position: entries that stay are returned once, although those that were returned are deleted.
func TestAHashIsReadByPosition(t *testing.T) {
	var plan *pb.Plan
	_, env, s := planned(t, &plan, true)
	c := s.Cubes()["c1"]
	for k := range uint32(4) {
		if err := env.maps["hash"].Put(word(k), word(k)); err != nil {
			t.Fatal(err)
		}
	}
	page := func(name, after string, limit uint32) (*pb.MapReply, error) {
		return c.Map(&pb.MapRequest{Map: name, Operation: &pb.MapRequest_Page{Page: &pb.MapPage{After: after, Limit: limit}}})
	}
	seen, after := map[string]int{}, ""
	for {
		reply, err := page("hash", after, 1)
		if err != nil || len(reply.GetEntries()) > 1 || reply.GetLast() != (reply.GetNext() == "") {
			t.Fatalf("%v, %v", reply, err)
		}
		for _, e := range reply.GetEntries() {
			seen[string(e.GetKey())]++
			if string(e.GetKey()) != string(e.GetValue()) {
				t.Errorf("%x has the value %x", e.GetKey(), e.GetValue())
			}
			if err := env.maps["hash"].Delete(e.GetKey()); err != nil {
				t.Fatal(err)
			}
		}
		if after = reply.GetNext(); after == "" {
			break
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d entries were returned: %v", len(seen), seen)
	}
	for _, tt := range []struct {
		name, after string
		code        codes.Code
	}{{"hash", "x", codes.InvalidArgument}, {"hash", "zz-1", codes.Aborted}, {"array", "", codes.Unimplemented}, {"sets", "", codes.InvalidArgument}} {
		if _, err := page(tt.name, tt.after, 0); status.Code(err) != tt.code {
			t.Errorf("%s after %q: %v, want %v", tt.name, tt.after, err, tt.code)
		}
	}
}
