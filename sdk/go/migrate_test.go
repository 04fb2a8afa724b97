// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
)

type (
	countV1 struct{ Packets, Bytes uint32 }
	countV2 struct {
		Bytes uint64
		Class uint8
		_     [7]byte
	}
)

var migrations = []Migration{
	Migrate("counts", func(port uint16, v countV1) (uint32, countV2, error) {
		switch v.Packets {
		case 0:
			return 0, countV2{}, ErrDrop
		case 666:
			return 0, countV2{}, errors.New("this one brings bad luck")
		case 667:
			panic("oh")
		}
		return uint32(port), countV2{Bytes: uint64(v.Bytes), Class: 7}, nil
	}),
	Migrate("counts", func(port uint16, bytes uint32) (uint32, countV2, error) {
		return uint32(port), countV2{Bytes: uint64(bytes)}, nil
	}),
	Migrate("perCPU", func(port uint16, bytes uint32) (uint16, [2]uint32, error) { return port, [2]uint32{bytes, 1}, nil }),
	Migrate("perCPU", func(_ uint16, bytes uint16) (uint16, [2]uint32, error) { return bytes, [2]uint32{}, nil }),
}

// convert has a service convert the entries of a map.
func convert(t *testing.T, client pb.ServiceClient, start *pb.MigrateStart, entries map[string]string) (map[string]string, error) {
	t.Helper()
	stream, err := client.Migrate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&pb.MigrateIn{Start: start}) // the received error has the reason
	for k, v := range entries {
		_ = stream.Send(&pb.MigrateIn{Entries: []*pb.Entry{{Key: []byte(k), Value: []byte(v)}}})
	}
	_ = stream.CloseSend()
	got := map[string]string{}
	for {
		out, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return nil, err
		}
		for _, e := range out.GetEntries() {
			got[string(e.GetKey())] = string(e.GetValue())
		}
	}
}

func TestEntriesOfEarlierLayoutsAreConverted(t *testing.T) {
	client := dial(t, Service[*least]{Name: "s", Migrations: migrations})
	if d, err := client.Describe(t.Context(), &pb.DescribeRequest{Protocol: 1}); err != nil || !d.GetMigrate() {
		t.Errorf("the description is %v, %v", d, err)
	}
	info := func(key, value uint32, perCPU bool) *pb.MapInfo {
		return &pb.MapInfo{KeySize: key, ValueSize: value, PerCpu: perCPU}
	}
	raw := func(v any) string {
		b, err := encode(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one, now := raw(uint16(1)), info(4, 16, false)
	type entries = map[string]string
	for _, tt := range []struct {
		what     string
		name     string
		was, now *pb.MapInfo
		old, new entries
		code     codes.Code
		says     string
	}{
		{"first version, an entry is dropped", "counts", info(2, 8, false), now,
			entries{one: raw(countV1{5, 258}), raw(uint16(2)): raw(countV1{})}, entries{raw(uint32(1)): raw(countV2{Bytes: 258, Class: 7})}, 0, ""},
		{"another version", "counts", info(2, 4, false), now, entries{one: raw(uint32(258))}, entries{raw(uint32(1)): raw(countV2{Bytes: 258})}, 0, ""},
		{"nothing to convert", "counts", info(2, 8, false), now, nil, entries{}, 0, ""},
		{"each CPU", "perCPU", info(2, 4, true), info(2, 8, true),
			entries{one: raw([4]uint32{5, 0, 6, 0})}, entries{one: raw([4]uint32{5, 1, 6, 1})}, 0, ""},
		{"keys by CPU", "perCPU", info(2, 2, true), info(2, 8, true),
			entries{one: raw([4]uint32{5, 0, 6, 0})}, nil, codes.InvalidArgument, "two CPUs have different keys"},
		{"no longer by CPU", "perCPU", info(2, 4, true), info(2, 8, false), nil, nil, codes.Unimplemented, "per-CPU map and of another one"},
		{"a refusal", "counts", info(2, 8, false), now, entries{one: raw(countV1{666, 0})}, nil, codes.Unknown,
			"map counts: entry 0100: this one brings bad luck"},
		{"a panic", "counts", info(2, 8, false), now, entries{one: raw(countV1{667, 0})}, nil, codes.Unknown, "the service failed: oh"},
		{"unknown sizes", "counts", info(2, 9, false), now, nil, nil, codes.Unimplemented, "no migration from keys of 2 and values of 9 bytes"},
		{"unknown map", "others", info(2, 8, false), now, nil, nil, codes.Unimplemented, "PCN_DISPOSABLE"},
		{"another result", "counts", info(2, 8, false), info(4, 12, false), nil, nil, codes.InvalidArgument,
			"makes entries of 4 and 16 bytes (uint32 and sdk.countV2), the map has 4 and 12"},
	} {
		got, err := convert(t, client, &pb.MigrateStart{Map: tt.name, Old: tt.was, New: tt.now}, tt.old)
		if status.Code(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.says) || !maps.Equal(got, tt.new) {
			t.Errorf("%s: %q, %v; want %q, %v %q", tt.what, got, err, tt.new, tt.code, tt.says)
		}
	}
	if _, err := convert(t, client, nil, nil); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a start: %v", err)
	}
}

func TestTypesWithoutASizeAreRefused(t *testing.T) {
	client := dial(t, Service[*least]{Name: "s", Migrations: []Migration{
		Migrate("m", func(k uint32, v int) (uint32, uint32, error) { return k, uint32(v), nil })}})
	_, err := client.Describe(t.Context(), &pb.DescribeRequest{Protocol: 1})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "map m: its migration has a type without a fixed size") {
		t.Errorf("a migration from int: %v", err)
	}
}
