// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// fdbOf opens the table of the bridge `br`.
func fdbOf(l *bpftest.Lab) table.Table[Key, fdb.Entry] {
	table, err := table.Of[Key, fdb.Entry]("fdb", l.Map("br", "fdb"))
	if err != nil {
		panic(err) // another test compares the layouts
	}
	return table
}

// key reads an entry's keys, "vlan mac"; the VLAN may be left out when it is 1.
func key(t *testing.T, text string) Key {
	t.Helper()
	vlan, mac, ok := strings.Cut(text, " ")
	if !ok {
		vlan, mac = "1", text
	}
	k, err := parseKey(vlan, mac)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// look reads an entry, which must exist.
func look(t *testing.T, l *bpftest.Lab, text string) fdb.Entry {
	t.Helper()
	e, ok, err := fdbOf(l).Get(key(t, text))
	if err != nil || !ok {
		t.Fatalf("entry %s: there %v, error %v", text, ok, err)
	}
	return e
}

// backdate makes an entry look as if its last frame was that long ago.
func backdate(t *testing.T, l *bpftest.Lab, text string, by time.Duration) {
	t.Helper()
	e := look(t, l, text)
	e.Seen -= uint64(by)
	if err := fdbOf(l).Set(key(t, text), e); err != nil {
		t.Fatal(err)
	}
	l.EndLeases("br")
}

// shown are the entries that a read shows, in their order.
func shown(t *testing.T, l *bpftest.Lab) []shownAs {
	t.Helper()
	var read struct{ Entry []shownAs }
	if err := json.Unmarshal([]byte(l.Read("br fdb")), &read); err != nil {
		t.Fatal(err)
	}
	return read.Entry
}

// known are their keys, as "vlan mac".
func known(t *testing.T, l *bpftest.Lab) []string {
	t.Helper()
	var out []string
	for _, e := range shown(t, l) {
		out = append(out, fmt.Sprint(e.VLAN, " ", e.MAC))
	}
	return out
}

// wantShown compares entries, as "vlan mac port type".
func wantShown(t *testing.T, l *bpftest.Lab, want ...string) {
	t.Helper()
	var got []string
	for _, e := range shown(t, l) {
		got = append(got, fmt.Sprint(e.VLAN, " ", e.MAC, " ", e.Port, " ", e.Type))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("shown are %q, want %q", got, want)
	}
}

func TestAnAgedEntryIsNotUsed(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", threePorts)
		tests := []struct {
			aging string
			age   time.Duration
			want  bpftest.Outcome
		}{
			{"300", 0, send("br:p2")},
			{"300", 200 * time.Second, send("br:p2")},
			{"300", 310 * time.Second, flood("br:p2 br:p3")},
			{"600", 310 * time.Second, send("br:p2")},
			{"20", 310 * time.Second, flood("br:p2 br:p3")},
			{"0", 1310 * time.Second, send("br:p2")},
		}
		for _, tt := range tests {
			l.Set("PATCH", "br fdb aging-time", tt.aging)
			l.Run("veth2", frame(two, one)) // the next sweep removes expired entries
			backdate(t, l, two, tt.age)
			if got := l.Run("veth1", frame(one, two)); got != tt.want {
				t.Errorf("aging-time %s, %v old: got %+v, want %+v", tt.aging, tt.age, got, tt.want)
			}
			there := strings.Contains(fmt.Sprint(known(t, l)), two)
			if there != (tt.want.Verdict == "send") {
				t.Errorf("aging-time %s: shown %v, verdict %s", tt.aging, there, tt.want.Verdict)
			}
		}
	})
}

// A new aging time takes effect at once, with a relink and without losing a frame.
func TestAChangedAgingTimeCounts(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", threePorts)
	l.Run("veth2", frame(two, one))
	start := time.Now()
	l.Set("PATCH", "br fdb aging-time", "1")
	netns.Eventually(t, bpftest.Patience, func() error {
		if got := l.Run("veth1", frame(one, two)); got.Verdict != "flood" {
			return fmt.Errorf("still %s after %v", got.Verdict, time.Since(start))
		}
		return nil
	})
	netns.Eventually(t, bpftest.Patience, func() error {
		_, ok, err := fdbOf(l).Get(key(t, two))
		if ok {
			return errors.New("the aged entry is still in the table")
		}
		return err
	})
}

func TestAFrameMakesAnEntryYoung(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", threePorts)
	l.Run("veth2", frame(two, one))
	// As another CPU's clock may be ahead by a tick: young, and not older than everything.
	backdate(t, l, two, -10*time.Second)
	first := look(t, l, two).Seen
	l.Run("veth2", frame(two, one))
	if again := look(t, l, two).Seen; again != first {
		t.Error("`seen` of a young entry was written")
	}
	walk(t, l, []step{{"and it is used", "veth1", frame(one, two), send("br:p2"), nil}})
	backdate(t, l, two, 290*time.Second)
	if age := l.Read("br fdb entry 1 " + two + " age"); age < "280" || age > "295" {
		t.Errorf("age is %s, want 280", age)
	}
	l.Run("veth2", frame(two, one))
	if got := look(t, l, two).Seen; int64(got-first) < -int64(20*time.Second) {
		t.Errorf("a frame left the entry %v old", time.Duration(first-got))
	}
}

func TestConfiguredEntries(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", threePorts)
		l.Set("POST", "br fdb entry 1 "+two, `{"port":"p2"}`)
		walk(t, l, []step{
			{"is used before the first frame", "veth1", frame(one, two), send("br:p2"), nil},
			{"its station may send from elsewhere", "veth3", frame(two, one), send("br:p1"), nil},
			{"and is not learned there", "veth1", frame(one, two), send("br:p2"), nil},
		})
		backdate(t, l, two, time.Hour)
		walk(t, l, []step{{"does not age", "veth1", frame(one, two), send("br:p2"), nil}})
		l.Set("PATCH", "br fdb entry 1 "+two+" port", `"p3"`)
		walk(t, l, []step{{"follows its configuration", "veth1", frame(one, two), send("br:p3"), nil}})
		wantShown(t, l, "1 "+one+" p1 dynamic", "1 "+two+" p3 static")
		if got, want := l.Read("br fdb entry 1 "+two), `{"vlan":1,"mac":"`+two+`","port":"p3","type":"static"}`; got != want {
			t.Errorf("it reads %s, want %s: it has no age", got, want)
		}
		l.Set("POST", "br fdb entry 1 "+one, `{"port":"p3"}`)
		walk(t, l, []step{{"takes the place of a learned one", "veth2", frame(two, one), send("br:p3"), nil}})
		l.Set("DELETE", "br fdb entry 1 "+one, "")
		walk(t, l, []step{{"is unknown once deleted", "veth2", frame(two, one), flood("br:p1 br:p3"), nil}})
		l.Set("POST", "br fdb entry 9 "+one, `{"port":"p3"}`)
		walk(t, l, []step{{"is of its VLAN only", "veth2", frame(two, one), flood("br:p1 br:p3"), nil}})
		l.Set("PATCH", "br ports p2 access vlanid", "9")
		walk(t, l, []step{{"and its port must be in it, too", "veth2", frame(two, one), drop("out-blocked"), nil}})
		l.Set("PATCH", "br ports p3 access vlanid", "9")
		walk(t, l, []step{{"before frames go there", "veth2", frame(two, one), send("br:p3"), nil}})
	})
}

func TestLearnedEntriesCanBeDeleted(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", threePorts)
	l.Run("veth2", frame(two, one))
	wantShown(t, l, "1 "+two+" p2 dynamic")
	for _, words := range []string{"1 " + three, "2 " + two} {
		if err := l.Try("DELETE", "br fdb entry "+words, ""); err == nil {
			t.Errorf("%s, which nobody has, was deleted", words)
		}
	}
	l.Set("DELETE", "br fdb entry 1 "+strings.ToUpper(two), "")
	wantShown(t, l)
	walk(t, l, []step{{"a deleted entry is not used", "veth1", frame(one, two), flood("br:p2 br:p3"), nil}})
}

// TestDeletingAllEntries: DELETE of the list removes both configured and learned entries.
func TestDeletingAllEntries(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", threePorts)
	l.Run("veth2", frame(two, one))
	l.Set("POST", "br fdb entry 1 "+three, `{"port":"p3"}`)
	wantShown(t, l, "1 "+two+" p2 dynamic", "1 "+three+" p3 static")
	l.Set("DELETE", "br fdb entry", "")
	wantShown(t, l)
	walk(t, l, []step{
		{"a learned entry is not used", "veth1", frame(one, two), flood("br:p2 br:p3"), nil},
		{"nor a configured one", "veth1", frame(one, three), flood("br:p2 br:p3"), nil},
	})
}

func TestFlush(t *testing.T) {
	const a, b, c, d = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c", "02:00:00:00:00:0d"
	all := []string{"1 " + a, "1 " + c, "2 " + b, "2 " + d}
	for _, tt := range []struct {
		input string
		stays []string
	}{
		{``, nil},
		{`{"vlan":2}`, []string{all[0], all[1]}},
		{`{"port":"p1"}`, []string{all[1], all[3]}},
		{`{"vlan":1,"port":"p2"}`, []string{all[0], all[2], all[3]}},
		{`{"vlan":3}`, all},
	} {
		t.Run(tt.input, func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{})
			l.Create("bridge", "br", `{"ports":[{"name":"p1","peer":"veth1","mode":"trunk","trunk":{"allowed":[{"vlanid":2}]}},
				{"name":"p2","peer":"veth2","mode":"trunk","trunk":{"allowed":[{"vlanid":2}]}}],
				"fdb":{"entry":[{"vlan":1,"mac":"`+c+`","port":"p2"},{"vlan":2,"mac":"`+strings.ToUpper(d)+`","port":"p2"}]}}`)
			l.Run("veth1", frame(a, pkt.Broadcast))
			l.Run("veth1", tagged(2, b, pkt.Broadcast))
			if got := known(t, l); fmt.Sprint(got) != fmt.Sprint(all) {
				t.Errorf("known before are %v, want %v", got, all)
			}
			l.Action("br fdb flush", tt.input)
			if got := known(t, l); fmt.Sprint(got) != fmt.Sprint(tt.stays) {
				t.Errorf("known after are %v, want %v", got, tt.stays)
			}
		})
	}
}

func TestDeletingTheDatabaseResetsIt(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"aging-time":5,"max-entries":64},`, 1))
	l.Set("POST", "br fdb entry 1 "+two, `{"port":"p2"}`)
	l.Set("DELETE", "br fdb", "")
	if got, want := l.Read("br fdb"), `{"aging-time":300,"max-entries":16384,"not-learned":0,"moves":0}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	walk(t, l, []step{
		{"the configured entry is gone", "veth1", frame(one, two), flood("br:p2 br:p3"), nil},
		{"the next is learned", "veth2", frame(two, one), send("br:p1"), nil},
	})
}

// nth is one of many addresses.
func nth(n int) string { return fmt.Sprintf("02:11:00:00:%02x:%02x", n>>8, n&0xff) }

func TestAFullDatabase(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"max-entries":64},`, 1))
		for n := range 64 {
			l.Run("veth1", frame(nth(n), pkt.Broadcast))
		}
		if got := l.Read("br fdb not-learned"); got != "0" {
			t.Errorf("not-learned is %s with room for all", got)
		}
		walk(t, l, []step{
			{"a frame from one more is forwarded", "veth2", frame(two, nth(5)), send("br:p1"), nil},
			{"and it is not learned", "veth1", frame(nth(5), two), flood("br:p2 br:p3"), nil},
			{"a learned station still moves", "veth3", frame(nth(6), nth(5)), send("br:p1"), nil},
			{"and is found", "veth1", frame(nth(5), nth(6)), send("br:p3"), nil},
		})
		if got := l.Read("br fdb not-learned"); got != "1" {
			t.Errorf("not-learned is %s, want 1", got)
		}
		backdate(t, l, nth(7), 100*time.Second)
		l.Set("POST", "br fdb entry 1 "+two, `{"port":"p2"}`)
		walk(t, l, []step{
			{"a configured entry finds room", "veth1", frame(nth(5), two), send("br:p2"), nil},
			{"in the place of the one that was silent for longest", "veth2", frame(two, nth(7)), flood("br:p1 br:p3"), nil},
		})
		l.Set("DELETE", "br fdb entry 1 "+two, "")
		walk(t, l, []step{
			{"room again", "veth2", frame(three, nth(5)), send("br:p1"), nil},
			{"for the next", "veth1", frame(nth(5), three), send("br:p2"), nil},
		})
	})
}

func TestTwentyThousandAddresses(t *testing.T) {
	const many = 20000
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Type: cube.TypeXDPDRV})
	l.Create("bridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"max-entries":20000},`, 1))
	f := frame(nth(0), two)
	for n := range many {
		copy(f[6:12], []byte{2, 0x11, 0, 0, byte(n >> 8), byte(n)})
		l.Flood("veth1", f, 1)
	}
	got := known(t, l)
	if len(got) != many || got[0] != "1 "+nth(0) || got[many-1] != "1 "+nth(many-1) {
		t.Errorf("%d are known, from %s to %s", len(got), got[0], got[len(got)-1])
	}
	walk(t, l, []step{
		{"the first is found", "veth2", frame(two, nth(0)), send("br:p1"), nil},
		{"and the last", "veth3", frame(three, nth(many-1)), send("br:p1"), nil},
	})
	if got := l.Read("br fdb not-learned"); got != "2" {
		t.Errorf("not-learned is %s, want 2", got)
	}
}

func TestMaxEntriesIsTheSizeOfTheTable(t *testing.T) {
	for body, want := range map[string]uint32{``: 16384, `{"fdb":{"max-entries":64}}`: 64, `{"fdb":{"max-entries":100000}}`: 100000} {
		l := bpftest.New(t, bpftest.Options{Hosts: 1})
		l.Create("bridge", "br", body)
		if got := l.Map("br", "fdb").MaxEntries(); got != want {
			t.Errorf("%s: the table has %d entries, want %d", body, got, want)
		}
	}
}

func TestADatabaseGrowsAndShrinks(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"max-entries":64},`, 1))
		l.Set("POST", "br fdb entry 1 "+two, `{"port":"p2"}`)
		for n := range 63 {
			l.Run("veth1", frame(nth(n), pkt.Broadcast))
		}
		l.Set("PATCH", "br fdb max-entries", "1000")
		if got := l.Map("br", "fdb").MaxEntries(); got != 1000 {
			t.Errorf("the table has %d entries, want 1000", got)
		}
		walk(t, l, []step{
			{"what was known is", "veth2", frame(two, nth(62)), send("br:p1"), nil},
			{"there is room for one more", "veth3", frame(three, two), send("br:p2"), nil},
			{"which is found", "veth1", frame(nth(0), three), send("br:p3"), nil},
		})
		if got := l.Read("br fdb not-learned"); got != "0" {
			t.Errorf("not-learned is %s", got)
		}
		if err := l.Try("PATCH", "br fdb max-entries", "64"); err == nil {
			t.Error("65 entries were put into 64")
		}
		walk(t, l, []step{{"which changes nothing", "veth1", frame(nth(0), three), send("br:p3"), nil}})
		l.Action("br fdb flush", `{"port":"p1"}`)
		l.Set("PATCH", "br", `{"fdb":{"max-entries":64,"aging-time":77,"entry":[{"vlan":1,"mac":"`+one+`","port":"p1"}]}}`)
		walk(t, l, []step{
			{"a smaller one holds the rest", "veth1", frame(one, three), send("br:p3"), nil},
			{"and what came with it", "veth3", frame(three, one), send("br:p1"), nil},
		})
		l.Restart(nil)
		walk(t, l, []step{{"after a restart, too", "veth1", frame(one, three), send("br:p3"), nil}})
	})
}

func TestMistakesAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"max-entries":64,"entry":[{"vlan":1,"mac":"`+two+`","port":"p2"}]},`, 1))
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf(`{"vlan":1,"mac":%q,"port":"p1"}`, nth(i))
	}
	tests := []struct{ name, method, words, body, says string }{
		{"a port that is not there", "POST", "br fdb entry 1 " + three, `{"port":"p9"}`, "p9"},
		{"no port", "POST", "br fdb entry 1 " + three, `{}`, "port"},
		{"a group address", "POST", "br fdb entry 1 01:00:5e:00:00:01", `{"port":"p1"}`, "group address"},
		{"no address", "POST", "br fdb entry 1 nonsense", `{"port":"p1"}`, "mac"},
		{"an address twice", "POST", "br fdb entry", `[{"vlan":1,"mac":"aa:00:00:00:00:01","port":"p1"},{"vlan":1,"mac":"AA:00:00:00:00:01","port":"p2"}]`, "given twice"},
		{"no VLAN", "POST", "br fdb entry 0 " + three, `{"port":"p1"}`, "1 to 4094"},
		{"more time than fits", "PATCH", "br fdb aging-time", `4294967296`, "aging-time"},
		{"a size that is too small", "PATCH", "br fdb max-entries", `63`, "max-entries"},
		{"more entries than fit", "POST", "br fdb entry", "[" + strings.Join(many, ",") + "]", "max-entries is 64"},
		{"the age of an entry", "PATCH", "br fdb entry 1 " + two, `{"age":1}`, "age"},
		{"the port of an entry", "DELETE", "br ports p2", "", "p2"},
	}
	before := l.Read("br fdb")
	for _, tt := range tests {
		err := l.Try(tt.method, tt.words, tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: the error is %v, it should name %s", tt.name, err, tt.says)
		}
		if after := l.Read("br fdb"); after != before {
			t.Errorf("%s: the database became %s", tt.name, after)
		}
	}
	walk(t, l, []step{{"the entry that was there is", "veth1", frame(one, two), send("br:p2"), nil}})
}

func TestADamagedTableIsMended(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"aging-time":4,"entry":[{"vlan":1,"mac":"`+two+`","port":"p2"}]},`, 1))
	table := fdbOf(l)
	now := look(t, l, two).Seen
	for a, e := range map[string]fdb.Entry{two: {Seen: now, Port: 0}, one: {Seen: now, Port: 1, Fixed: 1}, three: {Seen: now + uint64(time.Hour), Port: 77}, "8 " + three: {Seen: now + uint64(time.Hour)}} {
		if err := table.Set(key(t, a), e); err != nil {
			t.Fatal(err)
		}
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		found := map[string]fdb.Entry{}
		var err error
		for k, e := range table.All(&err) {
			found[k.String()] = e
		}
		if err != nil {
			return err
		}
		if e := found["1 "+two]; len(found) != 1 || e.Port != 1 || e.Fixed != 1 {
			return fmt.Errorf("the table holds %v", found)
		}
		return nil
	})
}
