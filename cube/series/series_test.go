// SPDX-License-Identifier: Apache-2.0

package series

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sketch"
)

// Types as clang writes them.
var (
	u8   = &btf.Int{Name: "unsigned char", Size: 1}
	u16  = &btf.Int{Name: "unsigned short", Size: 2}
	u32  = &btf.Int{Name: "unsigned int", Size: 4}
	u64  = &btf.Int{Name: "unsigned long long", Size: 8}
	s32  = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	yes  = &btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool}
	char = &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
)

func array(t btf.Type, n uint32) *btf.Array { return &btf.Array{Type: t, Index: u32, Nelems: n} }

func typedef(name string, t btf.Type) *btf.Typedef { return &btf.Typedef{Name: name, Type: t} }

// structOf lays members out one behind the other.
func structOf(name string, members ...btf.Member) *btf.Struct {
	s := &btf.Struct{Name: name}
	for _, m := range members {
		size, err := btf.Sizeof(m.Type)
		if err != nil {
			panic(err)
		}
		m.Offset = btf.Bits(8 * s.Size)
		s.Members = append(s.Members, m)
		s.Size += uint32(size)
	}
	return s
}

func is(name string, t btf.Type) btf.Member { return btf.Member{Name: name, Type: t} }

func TestValuesAreShownByTheirTypes(t *testing.T) {
	t.Parallel()
	state := &btf.Enum{Name: "state", Size: 4, Values: []btf.EnumValue{{Name: "OPEN", Value: 1}, {Name: "SHUT", Value: 2}}}
	bits := &btf.Struct{Name: "bits", Size: 4, Members: []btf.Member{
		{Name: "a", Type: u32, Offset: 0, BitfieldSize: 3}, {Name: "b", Type: s32, Offset: 3, BitfieldSize: 7}}}
	address := inet.Address{10: 0xff, 11: 0xff, 12: 10, 15: 1}
	for _, tt := range []struct {
		name string
		typ  btf.Type
		data []byte
		want string
	}{
		{"unsigned", u64, []byte{255, 255, 255, 255, 255, 255, 255, 255}, "18446744073709551615"},
		{"signed", s32, []byte{255, 255, 255, 255}, "-1"},
		{"bool", yes, []byte{2}, "true"},
		{"typedef and qualifiers", typedef("t", &btf.Const{Type: &btf.Volatile{Type: u16}}), []byte{1, 2}, "513"},
		{"network byte order", typedef("__be16", u16), []byte{0, 80}, "80"},
		{"an enum", state, []byte{2, 0, 0, 0}, `"SHUT"`},
		{"an unknown enum", state, []byte{9, 0, 0, 0}, "9"},
		{"text", array(char, 6), []byte("a\"b\x00zz"), `"a\"b"`},
		{"text that is none", array(char, 3), []byte{'a', 0xff, 'b'}, "\"a\uFFFDb\""},
		{"bytes", array(u8, 3), []byte{1, 2, 3}, "[1,2,3]"},
		{"an address", typedef("pcn_address", array(u32, 4)), address[:], `"10.0.0.1"`},
		{"an IPv4 address", typedef("pcn_ipv4", typedef("__be32", u32)), []byte{192, 0, 2, 1}, `"192.0.2.1"`},
		{"a MAC address", typedef("pcn_mac_address", array(u8, 6)), []byte{2, 0, 0, 0, 0, 1}, `"02:00:00:00:00:01"`},
		{"in6_addr", &btf.Struct{Name: "in6_addr", Size: 16}, append([]byte{0xfd}, make([]byte, 15)...), `"fd00::"`},
		{"a struct", structOf("s", is("n", u16), is("x", array(u16, 2)), is("in", structOf("t", is("y", u8)))), []byte{1, 0, 2, 0, 3, 0, 4}, `{"n":1,"x":[2,3],"in":{"y":4}}`},
		{"an anonymous member", structOf("s", is("a", u8), is("", structOf("", is("b", u8)))), []byte{1, 2}, `{"a":1,"b":2}`},
		{"a union", &btf.Union{Name: "u", Size: 4, Members: []btf.Member{is("a", u32), is("b", u8)}}, []byte{1, 1, 0, 0}, `{"a":257,"b":1}`},
		{"bit fields", bits, []byte{0b11111101, 0b11, 0, 0}, `{"a":5,"b":-1}`},
		{"a pointer", &btf.Pointer{Target: u8}, []byte{1, 0, 0, 0, 0, 0, 0, 0}, "1"},
		{"128 bits", &btf.Int{Name: "__int128 unsigned", Size: 16}, []byte{15: 1}, `"1329227995784915872903807060280344576"`},
	} {
		n, err := nodeOf(tt.typ, 0)
		if err != nil || n.size != len(tt.data) {
			t.Errorf("%s: %v, %+v", tt.name, err, n)
			continue
		}
		if got := string(n.json(nil, tt.data)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	deep := btf.Type(u8)
	for range maxDepth + 1 {
		deep = structOf("s", is("x", deep))
	}
	for _, typ := range []btf.Type{deep, &btf.Float{Name: "double", Size: 8}, &btf.Fwd{Name: "x"}} {
		if _, err := nodeOf(typ, 0); !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

// spec declares a map.
func spec(typ ebpf.MapType, key, value btf.Type, entries uint32) *ebpf.MapSpec {
	s := &ebpf.MapSpec{Type: typ, Key: key, Value: value, MaxEntries: entries}
	for _, part := range []struct {
		t    btf.Type
		size *uint32
	}{{key, &s.KeySize}, {value, &s.ValueSize}} {
		if part.t != nil {
			size, err := btf.Sizeof(part.t)
			if err != nil {
				panic(err)
			}
			*part.size = uint32(size)
		}
	}
	return s
}

// filled is a shape with entries.
func filled(t *testing.T, s *ebpf.MapSpec, cpus int, keys, values []byte) (*Shape, *Entries) {
	t.Helper()
	shape, err := ShapeOf(s, sketch.Seed{})
	if err != nil {
		t.Fatal(err)
	}
	e := &Entries{Keys: keys, Values: values, CPUs: cpus, keySize: int(s.KeySize), valueSize: int(s.ValueSize), stride: int(s.ValueSize)}
	if cpus > 1 {
		e.stride = (e.stride + 7) &^ 7
	}
	e.Len = len(values) / (e.stride * cpus)
	return shape, e
}

func words(n ...uint64) (out []byte) {
	for _, v := range n {
		out = binary.NativeEndian.AppendUint64(out, v)
	}
	return out
}

func TestEntriesBecomeJSONAndSamples(t *testing.T) {
	t.Parallel()
	flow := structOf("flow", is("source", typedef("pcn_ipv4", u32)), is("port", typedef("__be16", u16)), is("_pad", u16))
	count := structOf("pcn_count", is("packets", u64), is("bytes", u64))
	key := []byte{10, 0, 0, 1, 0, 80, 0, 0}
	histogram := structOf("pcn_histogram", is("count", array(u64, 3)), is("sum", u64))
	for _, tt := range []struct {
		name         string
		spec         *ebpf.MapSpec
		cpus         int
		keys, values []byte
		m            Metric
		json, text   string
	}{
		{"one entry", spec(ebpf.Array, u32, u64, 1), 1, []byte{0, 0, 0, 0}, words(7), Metric{Name: "n", Kind: Gauge}, "[7]", "# TYPE n gauge\nn 7\n"},
		{"an array", spec(ebpf.Array, u32, u64, 2), 1, []byte{0, 0, 0, 0, 1, 0, 0, 0}, words(7, 8), Metric{Name: "n_total", Kind: Counter, Help: "a \"b\"\n"},
			"[7,8]", "# HELP n a \\\"b\\\"\\n\n# TYPE n counter\nn_total{index=\"0\"} 7\nn_total{index=\"1\"} 8\n"},
		{"CPUs", spec(ebpf.PerCPUArray, u32, u64, 1), 2, []byte{0, 0, 0, 0}, words(7, 8), Metric{Name: "n", Kind: Unknown, Scale: 0.5}, "[[7,8]]", "# TYPE n unknown\nn 7.5\n"},
		{"a hash of structs", spec(ebpf.Hash, flow, count, 8), 1, key, words(3, 180), Metric{Name: "m", Kind: Counter, Labels: []Label{{"site", `a"b`}, {"port", "own"}}},
			`[{"key":{"source":"10.0.0.1","port":80,"_pad":0},"value":{"packets":3,"bytes":180}}]`,
			"# TYPE m_packets counter\nm_packets_total{site=\"a\\\"b\",port=\"own\",source=\"10.0.0.1\",pad=\"0\"} 3\n# TYPE m_bytes counter\nm_bytes_total{site=\"a\\\"b\",port=\"own\",source=\"10.0.0.1\",pad=\"0\"} 180\n"},
		{"a scalar key", spec(ebpf.LRUHash, array(char, 4), s32, 8), 1, []byte("a\nb\x00"), []byte{255, 255, 255, 255}, Metric{Name: "g", Kind: Gauge},
			`[{"key":"a\nb","value":-1}]`, "# TYPE g gauge\ng{key=\"a\\nb\"} -1\n"},
		{"a queue", spec(ebpf.Queue, nil, u64, 8), 1, nil, words(1, 2), Metric{Name: "q", Kind: Gauge}, "[1,2]", "# TYPE q gauge\nq{index=\"0\"} 1\nq{index=\"1\"} 2\n"},
		{"a histogram", spec(ebpf.Array, u32, histogram, 1), 1, []byte{0, 0, 0, 0}, words(1, 2, 4, 99), Metric{Name: "h", Kind: Histogram, Scale: 1e-3},
			`[{"count":[1,2,4],"sum":99}]`, "# TYPE h histogram\nh_bucket{le=\"0.0\"} 1\nh_bucket{le=\"0.001\"} 3\nh_bucket{le=\"+Inf\"} 7\nh_sum 0.099\nh_count 7\n"},
		{"an array as a histogram", spec(ebpf.Array, u32, u64, 3), 1, make([]byte, 12), words(1, 2, 4), Metric{Name: "h", Kind: Histogram, Buckets: []string{"0.1", "1"}},
			"[1,2,4]", "# TYPE h histogram\nh_bucket{le=\"0.1\"} 1\nh_bucket{le=\"1.0\"} 3\nh_bucket{le=\"+Inf\"} 7\n"},
		{"a summary", spec(ebpf.Array, u32, structOf("s", is("sum", u64), is("count", u64)), 1), 1, []byte{0, 0, 0, 0}, words(50, 5), Metric{Name: "s", Kind: Summary, Scale: 0.1},
			`[{"sum":50,"count":5}]`, "# TYPE s summary\ns_sum 5\ns_count 5\n"},
		{"without types", &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 1, ValueSize: 2, MaxEntries: 4}, 1, []byte{1}, []byte{2, 3}, Metric{}, `[{"key":[1],"value":[2,3]}]`, ""},
	} {
		shape, e := filled(t, tt.spec, tt.cpus, tt.keys, tt.values)
		if got := string(shape.JSON(e)); got != tt.json {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.json)
		}
		if tt.m.Name == "" {
			continue
		}
		if err := shape.Check(tt.m); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := string(shape.OpenMetrics(nil, e, tt.m)); got != tt.text {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.text)
		}
	}
}

func TestFamiliesOfSeveralMapsAreTogether(t *testing.T) {
	t.Parallel()
	shape, e := filled(t, spec(ebpf.Array, u32, structOf("s", is("a", u64), is("b", u64)), 1), 1, []byte{0, 0, 0, 0}, words(1, 2))
	var text Text
	for _, path := range []string{"ingress", "egress"} {
		text.Add(shape, e, Metric{Name: "m", Help: "Help.", Kind: Counter, Labels: []Label{{"path", path}}})
	}
	const want = `# HELP m_a Help.
# TYPE m_a counter
m_a_total{path="ingress"} 1
m_a_total{path="egress"} 1
# HELP m_b Help.
# TYPE m_b counter
m_b_total{path="ingress"} 2
m_b_total{path="egress"} 2
# EOF
`
	if got := string(text.Bytes()); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestBoundsAreNotRoundedVisibly(t *testing.T) {
	t.Parallel()
	counts := make([]uint64, 33)
	shape, e := filled(t, spec(ebpf.Array, u32, structOf(typeHistogram, is("count", array(u64, 32)), is("sum", u64)), 1), 1, []byte{0, 0, 0, 0}, words(counts...))
	text := string(shape.OpenMetrics(nil, e, Metric{Name: "h", Kind: Histogram, Scale: 1e-9}))
	for _, bound := range []string{"3e-09", "1.5e-08", "5.11e-07", "0.000131071", "0.008388607", "1.073741823", "+Inf"} {
		if !strings.Contains(text, `le="`+bound+`"`) {
			t.Errorf("no bound %s in\n%s", bound, text)
		}
	}
}

func TestEntriesOfTwoMapsAreAdded(t *testing.T) {
	t.Parallel()
	s := spec(ebpf.Hash, u8, structOf("s", is("n", u64), is("signed", s32), is("order", typedef("__be32", u32)), is("name", array(char, 8))), 8)
	value := func(n uint64, signed int32, order byte, name string) []byte {
		out := binary.NativeEndian.AppendUint32(words(n), uint32(signed))
		return append(append(out, 0, 0, 0, order), append([]byte(name), make([]byte, 8-len(name))...)...)
	}
	shape, to := filled(t, s, 1, []byte{1, 2}, append(value(1, -5, 7, "old"), value(2, 0, 0, "")...))
	_, more := filled(t, s, 1, []byte{3, 1}, append(value(9, 0, 0, "c"), value(10, 3, 250, "new")...))
	shape.Add(to, more)
	want := `[{"key":1,"value":{"n":11,"signed":-2,"order":257,"name":"new"}},{"key":2,"value":{"n":2,"signed":0,"order":0,"name":""}},{"key":3,"value":{"n":9,"signed":0,"order":0,"name":"c"}}]`
	if got := string(shape.JSON(to)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMetricsThatAMapCannotBe(t *testing.T) {
	t.Parallel()
	numbers, _ := filled(t, spec(ebpf.Hash, u32, u64, 4), 1, nil, nil)
	text, _ := filled(t, spec(ebpf.Hash, u32, array(char, 4), 4), 1, nil, nil)
	buckets, _ := filled(t, spec(ebpf.Array, u32, u64, 3), 1, nil, nil)
	for _, tt := range []struct {
		of   *Shape
		m    Metric
		says string
	}{
		{numbers, Metric{Name: "9x", Kind: Gauge}, "not a valid metric name"},
		{numbers, Metric{Name: "x", Kind: Gauge, Labels: []Label{{"__x", ""}}}, "not a valid label name"},
		{numbers, Metric{Name: "x", Kind: Gauge, Labels: []Label{{"a", ""}, {"a", ""}}}, "is given twice"},
		{numbers, Metric{Name: "x", Kind: Histogram}, "a Histogram needs"},
		{numbers, Metric{Name: "x", Kind: Gauge, Buckets: []string{"1"}}, "buckets are for"},
		{numbers, Metric{Name: "x", Kind: Summary}, "a Summary needs"},
		{text, Metric{Name: "x", Kind: Counter}, "no integers"},
		{buckets, Metric{Name: "x", Kind: Histogram, Buckets: []string{"1"}}, "the map has 3 buckets"},
		{buckets, Metric{Name: "x", Kind: Histogram, Buckets: []string{"2", "1"}}, "each greater"},
		{buckets, Metric{Name: "x", Kind: Histogram, Buckets: []string{"1", "x"}}, "bounds are numbers"},
	} {
		if err := tt.of.Check(tt.m); !errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v, want %q", tt.m, err, tt.says)
		}
	}
	for _, s := range []*ebpf.MapSpec{{Type: ebpf.RingBuf}, spec(ebpf.Array, u32, &btf.Struct{Name: typeDistinct, Size: 8, Members: []btf.Member{is("x", u64)}}, 1),
		{Type: ebpf.Array, KeySize: 4, ValueSize: 4, Value: u64, MaxEntries: 1}} {
		if _, err := ShapeOf(s, sketch.Seed{}); !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%v: %v", s, err)
		}
	}
}
