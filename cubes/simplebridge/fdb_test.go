// SPDX-License-Identifier: Apache-2.0

package simplebridge

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
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// fdbOf opens the table of the bridge `br`.
func fdbOf(l *bpftest.Lab) table.Table[inet.MAC, fdb.Entry] {
	table, err := table.Of[inet.MAC, fdb.Entry]("fdb", l.Map("br", "fdb"))
	if err != nil {
		panic(err) // another test compares the layouts
	}
	return table
}

func address(t *testing.T, text string) inet.MAC {
	t.Helper()
	a, err := inet.ParseMAC(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// look reads an address's entry, which must exist.
func look(t *testing.T, l *bpftest.Lab, text string) fdb.Entry {
	t.Helper()
	e, ok, err := fdbOf(l).Get(address(t, text))
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
	if err := fdbOf(l).Set(address(t, text), e); err != nil {
		t.Fatal(err)
	}
	l.EndLeases("br")
}

// shown are the addresses and ports that a read shows.
func shown(t *testing.T, l *bpftest.Lab) map[string]string {
	t.Helper()
	var read struct{ Entry []Entry }
	if err := json.Unmarshal([]byte(l.Read("br fdb")), &read); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range read.Entry {
		out[e.Address.String()] = e.Port
	}
	return out
}

func wantShown(t *testing.T, l *bpftest.Lab, want map[string]string) {
	t.Helper()
	if got := shown(t, l); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("shown are %v, want %v", got, want)
	}
}

func TestAnAgedEntryIsNotUsed(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simplebridge", "br", threePorts)
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
			if _, there := shown(t, l)[two]; there != (tt.want.Verdict == "send") {
				t.Errorf("aging-time %s: shown %v, verdict %s", tt.aging, there, tt.want.Verdict)
			}
		}
	})
}

func TestAgingTimeEndsInTime(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simplebridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"aging-time":1},`, 1))
		start := time.Now()
		l.Run("veth2", frame(two, one))
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := l.Run("veth1", frame(one, two)); got.Verdict != "flood" {
				return fmt.Errorf("still %s after %v", got.Verdict, time.Since(start))
			}
			return nil
		})
		if took := time.Since(start); took < 980*time.Millisecond {
			t.Errorf("the entry was given up after %v", took)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			_, ok, err := fdbOf(l).Get(address(t, two))
			if ok {
				return errors.New("the aged entry is still in the table")
			}
			return err
		})
	})
}

func TestAFrameMakesAnEntryYoung(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("simplebridge", "br", threePorts)
	l.Run("veth2", frame(two, one))
	// As another CPU's clock may be ahead by a tick: young, and not older than everything.
	backdate(t, l, two, -10*time.Second)
	first := look(t, l, two).Seen
	l.Run("veth2", frame(two, one))
	if again := look(t, l, two).Seen; again != first {
		t.Error("`seen` of a young entry was written")
	}
	walk(t, l, []step{{"and it is used", "veth1", frame(one, two), send("br:p2")}})
	backdate(t, l, two, 290*time.Second)
	if age := l.Read("br fdb entry " + two + " age"); age < "280" || age > "295" {
		t.Errorf("age is %s, want 280", age)
	}
	l.Run("veth2", frame(two, one))
	if got := look(t, l, two).Seen; int64(got-first) < -int64(20*time.Second) {
		t.Errorf("a frame left the entry %v old", time.Duration(first-got))
	}
}

func TestConfiguredEntries(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simplebridge", "br", threePorts)
		l.Set("POST", "br fdb entry "+two, `{"port":"p2"}`)
		walk(t, l, []step{
			{"is used before the first frame", "veth1", frame(one, two), send("br:p2")},
			{"its station may send from elsewhere", "veth3", frame(two, one), send("br:p1")},
			{"and is not learned there", "veth1", frame(one, two), send("br:p2")},
		})
		backdate(t, l, two, time.Hour)
		walk(t, l, []step{{"does not age", "veth1", frame(one, two), send("br:p2")}})
		l.Set("PATCH", "br fdb entry "+two+" port", `"p3"`)
		walk(t, l, []step{{"follows its configuration", "veth1", frame(one, two), send("br:p3")}})
		wantShown(t, l, map[string]string{one: "p1", two: "p3"})
		if got, want := l.Read("br fdb entry "+two), `{"address":"`+two+`","port":"p3"}`; got != want {
			t.Errorf("it reads %s, want %s: it has no age", got, want)
		}
		l.Set("POST", "br fdb entry "+one, `{"port":"p3"}`)
		walk(t, l, []step{{"takes the place of a learned one", "veth2", frame(two, one), send("br:p3")}})
		if e := look(t, l, one); e.Fixed != 1 {
			t.Errorf("the entry is %+v, not configured", e)
		}
		l.Set("DELETE", "br fdb entry "+one, "")
		walk(t, l, []step{{"is unknown once deleted", "veth2", frame(two, one), flood("br:p1 br:p3")}})
	})
}

func TestLearnedEntriesCanBeDeleted(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("simplebridge", "br", threePorts)
	l.Run("veth2", frame(two, one))
	wantShown(t, l, map[string]string{two: "p2"})
	if err := l.Try("DELETE", "br fdb entry "+three, ""); err == nil {
		t.Error("an address that nobody has was deleted")
	}
	l.Set("DELETE", "br fdb entry "+strings.ToUpper(two), "")
	wantShown(t, l, map[string]string{})
	walk(t, l, []step{{"a deleted entry is not used", "veth1", frame(one, two), flood("br:p2 br:p3")}})
}

// TestDeletingAllEntries: DELETE of the list removes both configured and learned entries.
func TestDeletingAllEntries(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("simplebridge", "br", threePorts)
	l.Run("veth1", frame(one, two))
	l.Run("veth2", frame(two, one))
	l.Set("POST", "br fdb entry "+three, `{"port":"p3"}`)
	wantShown(t, l, map[string]string{one: "p1", two: "p2", three: "p3"})
	l.Set("DELETE", "br fdb entry", "")
	wantShown(t, l, map[string]string{})
	walk(t, l, []step{
		{"a learned entry is not used", "veth1", frame(one, two), flood("br:p2 br:p3")},
		{"nor a configured one", "veth1", frame(one, three), flood("br:p2 br:p3")},
	})
}

func TestFlushEmptiesTheDatabase(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simplebridge", "br", threePorts)
		for range 2 { // with and without entries
			if got := l.Action("br fdb flush", ""); got != `{"flushed":true}` {
				t.Errorf("flush answers %s", got)
			}
			wantShown(t, l, map[string]string{})
			walk(t, l, []step{
				{"nothing is known", "veth1", frame(one, two), flood("br:p2 br:p3")},
				{"nor the third", "veth2", frame(two, three), flood("br:p1 br:p3")},
			})
			l.Set("POST", "br fdb entry "+three, `{"port":"p3"}`)
			wantShown(t, l, map[string]string{one: "p1", two: "p2", three: "p3"})
		}
	})
}

func TestDeletingTheDatabaseResetsIt(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("simplebridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"aging-time":5,"max-entries":64},`, 1))
	l.Set("POST", "br fdb entry "+two, `{"port":"p2"}`)
	l.Set("DELETE", "br fdb", "")
	if got, want := l.Read("br fdb"), `{"aging-time":300,"max-entries":64,"not-learned":0}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	walk(t, l, []step{
		{"the configured entry is gone", "veth1", frame(one, two), flood("br:p2 br:p3")},
		{"the next is learned", "veth2", frame(two, one), send("br:p1")},
	})
	backdate(t, l, two, 100*time.Second)
	walk(t, l, []step{{"and ages by the default", "veth1", frame(one, two), send("br:p2")}})
}

// nth is one of many addresses.
func nth(n int) string { return fmt.Sprintf("02:11:00:00:%02x:%02x", n>>8, n&0xff) }

func TestAFullDatabase(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simplebridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"max-entries":64},`, 1))
		for n := range 64 {
			l.Run("veth1", frame(nth(n), pkt.Broadcast))
		}
		if got := l.Read("br fdb not-learned"); got != "0" {
			t.Errorf("not-learned is %s with room for all", got)
		}
		walk(t, l, []step{
			{"a frame from one more is forwarded", "veth2", frame(two, nth(5)), send("br:p1")},
			{"and it is not learned", "veth1", frame(nth(5), two), flood("br:p2 br:p3")},
			{"a learned station still moves", "veth3", frame(nth(6), nth(5)), send("br:p1")},
			{"and is found", "veth1", frame(nth(5), nth(6)), send("br:p3")},
		})
		if got := l.Read("br fdb not-learned"); got != "1" {
			t.Errorf("not-learned is %s, want 1", got)
		}
		backdate(t, l, nth(7), 100*time.Second)
		l.Set("POST", "br fdb entry "+two, `{"port":"p2"}`)
		walk(t, l, []step{
			{"a configured entry finds room", "veth1", frame(nth(5), two), send("br:p2")},
			{"in the place of the one that was silent for longest", "veth2", frame(two, nth(7)), flood("br:p1 br:p3")},
		})
		l.Set("DELETE", "br fdb entry "+two, "")
		walk(t, l, []step{
			{"room again", "veth2", frame(three, nth(5)), send("br:p1")},
			{"for the next", "veth1", frame(nth(5), three), send("br:p2")},
		})
	})
}

func TestMaxEntriesIsTheSizeOfTheTable(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]uint32{``: 4096, `{"fdb":{"max-entries":64}}`: 64, `{"fdb":{"max-entries":100000}}`: 100000} {
		l := bpftest.New(t, bpftest.Options{Hosts: 1})
		l.Create("simplebridge", "br", body)
		if got := l.Map("br", "fdb").MaxEntries(); got != want {
			t.Errorf("%s: the table has %d entries, want %d", body, got, want)
		}
	}
}

func TestMistakesAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("simplebridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"max-entries":64,"entry":[{"address":"`+two+`","port":"p2"}]},`, 1))
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf(`{"address":%q,"port":"p1"}`, nth(i))
	}
	tests := []struct{ name, method, words, body, says string }{
		{"a port that is not there", "POST", "br fdb entry " + three, `{"port":"p9"}`, "p9"},
		{"no port", "POST", "br fdb entry " + three, `{}`, "port"},
		{"a group address", "POST", "br fdb entry 01:00:5e:00:00:01", `{"port":"p1"}`, "group address"},
		{"no address", "POST", "br fdb entry nonsense", `{"port":"p1"}`, "address"},
		{"more time than fits", "PATCH", "br fdb aging-time", `4294967296`, "aging-time"},
		{"another size", "PATCH", "br fdb max-entries", `128`, "max-entries"},
		{"more entries than fit", "POST", "br fdb entry", "[" + strings.Join(many, ",") + "]", "max-entries is 64"},
		{"the age of an entry", "PATCH", "br fdb entry " + two, `{"age":1}`, "age"},
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
	if err := l.TryCreate("simplebridge", "br2", `{"fdb":{"max-entries":63}}`); err == nil {
		t.Error("a table of 63 entries was made")
	}
	walk(t, l, []step{{"the entry that was there is", "veth1", frame(one, two), send("br:p2")}})
}

func TestPortsThatGoTakeTheirAddressesAlong(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("simplebridge", "br", threePorts)
	l.Run("veth2", frame(two, one))
	l.Run("veth3", frame(three, one))
	l.Set("PATCH", "br ports p2 peer", `""`)
	wantShown(t, l, map[string]string{three: "p3"})
	walk(t, l, []step{{"a station behind a port without peer is looked for", "veth1", frame(one, two), flood("br:p3")}})
	l.Set("DELETE", "br ports p3", "")
	wantShown(t, l, map[string]string{one: "p1"})
	if err := fdbOf(l).Set(address(t, three), fdb.Entry{Seen: look(t, l, one).Seen, Port: 2}); err != nil {
		t.Fatal(err) // like a frame that was in flight when the port was deleted
	}
	l.Set("POST", "br ports p4", `{"peer":"veth3"}`)
	wantShown(t, l, map[string]string{one: "p1"})
}

func TestADamagedTableIsMended(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("simplebridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"aging-time":4,"entry":[{"address":"`+two+`","port":"p2"}]},`, 1))
	table := fdbOf(l)
	now := look(t, l, two).Seen
	for a, e := range map[string]fdb.Entry{two: {Seen: now, Port: 0}, one: {Seen: now, Port: 1, Fixed: 1}, three: {Seen: now + uint64(time.Hour), Port: 77}} {
		if err := table.Set(address(t, a), e); err != nil {
			t.Fatal(err)
		}
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		found := map[string]fdb.Entry{}
		var err error
		for a, e := range table.All(&err) {
			found[a.String()] = e
		}
		if err != nil {
			return err
		}
		if e := found[two]; len(found) != 1 || e.Port != 1 || e.Fixed != 1 {
			return fmt.Errorf("the table holds %v", found)
		}
		return nil
	})
}

// TestFramesBetweenCachedStations: the table is not read for them, and whatever changes it is seen at once.
func TestFramesBetweenCachedStations(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simplebridge", "br", threePorts)
		learn := func() {
			walk(t, l, []step{
				{"station one sends", "veth1", frame(one, pkt.Broadcast), flood("br:p2 br:p3")},
				{"station two sends", "veth2", frame(two, one), send("br:p1")},
				{"and is found", "veth1", frame(one, two), send("br:p2")},
			})
		}
		netns.Eventually(t, bpftest.Patience, func() error { // a slow machine may take longer than a lease
			learn()
			if _, err := fdbOf(l).Delete(address(t, two)); err != nil {
				return err
			}
			got := l.Run("veth1", frame(one, two))
			l.EndLeases("br")
			if want := send("br:p2"); got != want {
				return fmt.Errorf("behind the back of the cache: got %+v, want %+v", got, want)
			}
			return nil
		})
		for _, change := range []struct {
			name  string
			first func()
			do    func()
			want  bpftest.Outcome
		}{
			{"deleting the station", learn, func() { l.Set("DELETE", "br fdb entry "+two, "") }, flood("br:p2 br:p3")},
			{"a flush", learn, func() { l.Action("br fdb flush", "") }, flood("br:p2 br:p3")},
			{"a configured address", learn, func() { l.Set("POST", "br fdb entry "+two, `{"port":"p3"}`) }, send("br:p3")},
			{"its deletion", func() {}, func() { l.Set("DELETE", "br fdb entry "+two, "") }, flood("br:p2 br:p3")},
			{"a port without a peer", learn, func() { l.Set("DELETE", "br ports p2 peer", "") }, flood("br:p3")},
		} {
			change.first()
			change.do()
			walk(t, l, []step{{change.name, "veth1", frame(one, two), change.want}})
		}
	})
}

// TestStationsAgeWithoutADaemon: the programs forget a silent station by themselves, in time.
func TestStationsAgeWithoutADaemon(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ})
			l.Create("simplebridge", "br", strings.Replace(threePorts, "{", `{"fdb":{"aging-time":3},`, 1))
			l.Restart(func() {
				wires := l.Wires()
				hello, f := frame(two, pkt.Broadcast), frame(one, two)
				start := time.Now()
				wires[1].Puts(hello)
				wires[0].Gets(hello)
				wires[2].Gets(hello)
				wires[0].Puts(f)
				wires[1].Gets(f)
				netns.Eventually(t, bpftest.Patience, func() error {
					wires[0].Puts(f)
					wires[1].Gets(f)
					if !wires[2].Got(f) {
						return fmt.Errorf("still only to the port of the station after %v", time.Since(start))
					}
					return nil
				})
				if took := time.Since(start); took < 2900*time.Millisecond {
					t.Errorf("the station was forgotten after %v, want 3 s", took)
				}
			})
		})
	}
}
