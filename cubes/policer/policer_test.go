// SPDX-License-Identifier: Apache-2.0

package policer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // registers the policer, and what it is attached to
	_ "github.com/polycube/polycube/test/classes"       // registers a cube that gives packets a class
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// size is the length of all frames.
const size = 500

// hardly is a rate of a byte in eight milliseconds, and a burst of three frames.
const hardly = `"action":"LIMIT","rate-limit":1,"burst-limit":13`

// of returns a frame of a class.
func of(class uint16) []byte { return tos(class, 0) }

func tos(class uint16, tos uint8) []byte {
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2", pkt.IPv4Options{TOS: tos}).UDP(1, class).Payload(size - 42).Bytes()
}

// policed attaches a policer p with a configuration to a device, behind a cube that makes destination ports classes.
func policed(l *bpftest.Lab, conf string) {
	l.Create("policer", "p", conf)
	l.Create("classes", "c", "")
	l.Attach("c", "veth1") // the first one that packets meet
	l.Attach("p", "veth1")
}

func each(t *testing.T, conf string, test func(t *testing.T, l *bpftest.Lab)) {
	bpftest.Each(t, bpftest.Options{Hosts: 1}, func(t *testing.T, l *bpftest.Lab) {
		policed(l, conf)
		test(t, l)
	})
}

// fate checks what becomes of a frame: "pass", or the reason of a drop.
func fate(t *testing.T, l *bpftest.Lab, what string, frame []byte, want string) {
	t.Helper()
	is := bpftest.Outcome{Verdict: "drop", Fate: "p " + want}
	if want == "pass" {
		is.Verdict = "pass"
	}
	if got := l.Run("veth1", frame); got != is {
		t.Errorf("%s: %+v, want %+v", what, got, is)
	}
}

// counts are the counters of a contract.
type counts struct {
	PassedPackets  uint64 `json:"passed-packets"`
	PassedBytes    uint64 `json:"passed-bytes"`
	DroppedPackets uint64 `json:"dropped-packets"`
	DroppedBytes   uint64 `json:"dropped-bytes"`
	MarkedPackets  uint64 `json:"marked-packets"`
}

func counted(t *testing.T, l *bpftest.Lab, contract string, want counts) {
	t.Helper()
	var got counts
	if err := json.Unmarshal([]byte(l.Read("p "+contract)), &got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%s has %+v, want %+v", contract, got, want)
	}
}

func TestEachClassHasItsContract(t *testing.T) {
	each(t, `{"default-contract":{"action":"DROP"},"contract":[{"traffic-class":10},{"traffic-class":20,`+hardly+`},{"traffic-class":4000000000,"action":"DROP"}]}`,
		func(t *testing.T, l *bpftest.Lab) {
			fate(t, l, "PASS", of(10), "pass")
			fate(t, l, "no contract", of(11), "contract-drops")
			for range 3 {
				fate(t, l, "LIMIT, in the burst", of(20), "pass")
			}
			fate(t, l, "LIMIT, above the rate", of(20), "exceeded")
			fate(t, l, "another class", of(10), "pass")
			counted(t, l, "contract 10", counts{2, 2 * size, 0, 0, 0})
			counted(t, l, "contract 20", counts{3, 3 * size, 1, size, 0})
			counted(t, l, "default-contract", counts{0, 0, 1, size, 0})

			l.Set("DELETE", "p contract 20", "")
			fate(t, l, "a contract that was removed", of(20), "contract-drops")
			l.Set("PATCH", "p default-contract action", `"PASS"`)
			fate(t, l, "the default contract, changed", of(20), "pass")
			l.Set("POST", "p contract 20", `{`+hardly+`}`)
			fate(t, l, "a new contract has a full bucket", of(20), "pass")
			counted(t, l, "contract 20", counts{1, size, 0, 0, 0})
		})
}

// algorithms are those of the model.
var algorithms = []string{"COMPARE_AND_SWAP", "FIXED_WINDOW", "TOKEN_BUCKET", "TOKEN_BUCKET_REDUCED_LOCK", "SLIDING_WINDOW", "SLIDING_WINDOW_REDUCED_LOCK"}

// TestEveryAlgorithmLimits, also after a change of the algorithm under a contract.
func TestEveryAlgorithmLimits(t *testing.T) {
	each(t, `{"contract":[{"traffic-class":20,`+hardly+`}],"window":60000}`, func(t *testing.T, l *bpftest.Lab) {
		for _, algorithm := range algorithms {
			l.Set("PATCH", "p contract 20 rate-limit", map[bool]string{false: "1", true: "2"}[algorithm == "FIXED_WINDOW"]) // 2 kbit/s: 15 kB in a minute
			l.Set("PATCH", "p algorithm", `"`+algorithm+`"`)
			l.Set("DELETE", "p contract 20", "")
			l.Set("POST", "p contract 20", `{`+strings.Replace(hardly, `"rate-limit":1`, `"rate-limit":2`, 1)+`}`)
			passed := 0
			for range 100 {
				if l.Run("veth1", of(20)).Verdict == "pass" {
					passed++
				}
			}
			want := [2]int{3, 6} // the bucket fills a little
			if algorithm == "FIXED_WINDOW" {
				want = [2]int{30, 60} // two windows may meet
			}
			if passed < want[0] || passed > want[1] {
				t.Errorf("%s: %d of 100 frames pass, want %d to %d", algorithm, passed, want[0], want[1])
			}
		}
	})
}

// TestAHigherRateLetsNoBurstThrough: what passes after the change of a contract whose bucket was empty is what the new rate
// carries since.
func TestAHigherRateLetsNoBurstThrough(t *testing.T) {
	for _, algorithm := range algorithms {
		if algorithm == "FIXED_WINDOW" {
			continue // its windows have no bucket
		}
		t.Run(algorithm, func(t *testing.T) {
			l := bpftest.New(t, bpftest.Options{Hosts: 1})
			policed(l, fmt.Sprintf(`{"algorithm":%q,"contract":[{"traffic-class":20,"action":"LIMIT","rate-limit":8,"burst-limit":80}]}`, algorithm))
			begin := time.Now()
			for range 100 {
				l.Run("veth1", of(20))
			}
			l.Set("PUT", "p contract 20", `{"action":"LIMIT","rate-limit":400,"burst-limit":8000}`) // 50 kB a second
			passed := 0
			for range 100 {
				if l.Run("veth1", of(20)).Verdict == "pass" {
					passed++
				}
			}
			if most := 1 + int(time.Since(begin).Seconds()*50_000/size); passed > most {
				t.Errorf("%d frames pass after the change, at most %d may", passed, most)
			}
			netns.Eventually(t, bpftest.Patience, func() error {
				if got := l.Run("veth1", of(20)); got.Verdict != "pass" {
					return fmt.Errorf("the new rate has no effect: %+v", got)
				}
				return nil
			})
		})
	}
}

// TestARateChangesUnderTraffic: while packets come far above it, the rate of a contract falls and rises many times. What passes is at
// most the highest rate, a packet for each change, and what a bucket or two windows have.
func TestARateChangesUnderTraffic(t *testing.T) {
	const low, high = `{"action":"LIMIT","rate-limit":40,"burst-limit":80}`, `{"action":"LIMIT","rate-limit":400,"burst-limit":8000}` // 50 kB a second
	for _, algorithm := range algorithms {
		t.Run(algorithm, func(t *testing.T) {
			l := bpftest.New(t, bpftest.Options{Hosts: 1})
			policed(l, fmt.Sprintf(`{"algorithm":%q,"window":1000,"contract":[{"traffic-class":20,"action":"LIMIT","rate-limit":40,"burst-limit":80}]}`, algorithm))
			begin := time.Now()
			var ended atomic.Bool
			var floods atomic.Int64
			var traffic sync.WaitGroup
			traffic.Go(func() {
				for !ended.Load() {
					l.Flood("veth1", of(20), 500)
					floods.Add(1)
				}
			})
			flooded := func() {
				before := floods.Load()
				netns.Eventually(t, bpftest.Patience, func() error {
					if floods.Load() < before+2 {
						return errors.New("no traffic")
					}
					return nil
				})
			}
			flooded() // a bucket that is full stays so, with more in it
			const changes = 40
			for i := range changes {
				l.Set("PUT", "p contract 20", [2]string{high, low}[i%2])
				flooded()
			}
			ended.Store(true)
			traffic.Wait()
			var got counts
			if err := json.Unmarshal([]byte(l.Read("p contract 20")), &got); err != nil {
				t.Fatal(err)
			}
			most := uint64(10_000+50_000*time.Since(begin).Seconds()) + changes*size
			if algorithm == "FIXED_WINDOW" {
				most += 2 * 50_000
			}
			if got.PassedBytes > most || got.DroppedBytes < 10*most {
				t.Errorf("%+v, at most %d bytes may pass, of more than ten times as many", got, most)
			}
		})
	}
}

// TestPacketsCloseToTheRateAreMarked: with a DSCP and with the first codepoint of L4S all, else one for a while.
func TestPacketsCloseToTheRateAreMarked(t *testing.T) {
	each(t, `{"contract":[{"traffic-class":20,"action":"MARK","rate-limit":1,"burst-limit":28,"mark-below":75},
		{"traffic-class":21,"action":"MARK","rate-limit":1,"burst-limit":20,"mark-below":50,"mark-dscp":10}]}`, func(t *testing.T, l *bpftest.Lab) {
		expect := func(what string, frame, want []byte) {
			t.Helper()
			if outcome, got := l.RunBytes("veth1", frame); outcome.Verdict != "pass" || string(got) != string(want) {
				t.Errorf("%s: %+v\n% x, want\n% x", what, outcome, got[:24], want[:24])
			}
		}
		// The burst is 3,500 bytes: after the second frame less than three quarters of it are left.
		expect("with much credit", tos(20, 0x2a), tos(20, 0x2a))
		expect("ECT(0)", tos(20, 0x2a), tos(20, 0x2b))
		expect("ECT(0), just after another", tos(20, 0x2a), tos(20, 0x2a))
		expect("ECT(1)", tos(20, 0x29), tos(20, 0x2b))
		expect("ECT(1), just after another", tos(20, 0x29), tos(20, 0x2b))
		expect("CE", tos(20, 0x2b), tos(20, 0x2b))
		expect("without ECN", tos(20, 0x28), tos(20, 0x28))
		fate(t, l, "above the rate", tos(20, 0x29), "exceeded")
		counted(t, l, "contract 20", counts{7, 7 * size, 1, size, 3})

		// Here it is 2,500 bytes, and less than half of it is left after the third frame.
		expect("with much credit", tos(21, 0xb8), tos(21, 0xb8))
		expect("with much credit", tos(21, 0xb8), tos(21, 0xb8))
		expect("with a DSCP", tos(21, 0xb8), tos(21, 10<<2))
		expect("with a DSCP, ECT(0)", tos(21, 0xba), tos(21, 10<<2|3))
		counted(t, l, "contract 21", counts{4, 4 * size, 0, 0, 2})
	})
}

// TestMarksAreApart by eight times what the credit lasts, with each algorithm.
func TestMarksAreApart(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm, func(t *testing.T) {
			l := bpftest.New(t, bpftest.Options{Hosts: 1})
			// 5,000 bytes a second, of which 10,000 may pass at once or in a window; all packets are close to the rate.
			policed(l, fmt.Sprintf(`{"algorithm":%q,"window":2000,"contract":[{"traffic-class":20,"action":"MARK","rate-limit":40,"burst-limit":80,"mark-below":100}]}`,
				algorithm))
			marked := func() bool {
				outcome, got := l.RunBytes("veth1", tos(20, 0x2a))
				return outcome.Verdict == "pass" && string(got) == string(tos(20, 0x2b))
			}
			begin := time.Now()
			if first := marked(); !first && !marked() { // a bucket may be full for one packet
				t.Fatal("no packet is marked")
			}
			for left := 10_000 - 3*size; left >= 1500; left -= size { // 1,500 bytes last 300 ms
				if marked() && time.Since(begin) < 2*time.Second {
					t.Errorf("a second packet is marked %s after the first, with %d bytes left", time.Since(begin), left)
				}
			}
			netns.Eventually(t, bpftest.Patience, func() error {
				if !marked() {
					return errors.New("no packet is marked again")
				}
				return nil
			})
		})
	}
}

func TestIPPacketsCountWithoutTheirFrame(t *testing.T) {
	each(t, `{"length":"IP","contract":[{"traffic-class":20},{"traffic-class":0}]}`, func(t *testing.T, l *bpftest.Lab) {
		fate(t, l, "IPv4", of(20), "pass")
		fate(t, l, "in a VLAN", pkt.Tagged(of(20), 0x81000007), "pass")
		counted(t, l, "contract 20", counts{2, 2 * (size - 14), 0, 0, 0})
		arp := pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").ARPRequest("02:00:00:00:00:01", "192.0.2.1", "10.0.0.2").Bytes()
		fate(t, l, "ARP", arp, "pass")
		counted(t, l, "contract 0", counts{1, uint64(len(arp)), 0, 0, 0})
	})
}

func TestBucketsAndCountersSurviveARestart(t *testing.T) {
	each(t, `{"contract":[{"traffic-class":10},{"traffic-class":20,`+hardly+`},{"traffic-class":30}]}`, func(t *testing.T, l *bpftest.Lab) {
		begin, passed := time.Now(), uint64(0)
		run := func() {
			for range 4 {
				if l.Run("veth1", of(20)).Verdict == "pass" {
					passed++
				}
			}
		}
		run()
		l.Restart(nil)
		run()
		if most := 4 + uint64(time.Since(begin).Seconds()*125/size); passed < 3 || passed > most { // a full bucket would have three more
			t.Errorf("%d frames pass before and after a restart, want 3 to %d", passed, most)
		}
		counted(t, l, "contract 20", counts{passed, passed * size, 8 - passed, (8 - passed) * size, 0})
		l.Set("POST", "p contract 40", `{"action":"DROP"}`)
		fate(t, l, "a contract after it", of(40), "contract-drops")
		fate(t, l, "an earlier one", of(30), "pass")
		counted(t, l, "contract 30", counts{1, size, 0, 0, 0})
	})
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	policed(l, `{"max-contracts":2,"contract":[{"traffic-class":1,`+hardly+`}]}`)
	for _, c := range []struct {
		method, words, body, why string
		as                       error
	}{
		{"POST", "p contract 2", `{"action":"LIMIT"}`, "contract 2: rate-limit: required by actions LIMIT and MARK", cube.ErrInvalid},
		{"PATCH", "p default-contract action", `"MARK"`, "default-contract: rate-limit", cube.ErrInvalid},
		{"PATCH", "p contract 1 burst-limit", `12`, "out of range", nil},
		{"PATCH", "p algorithm", `"FIXED_WINDOW"`, "contract 1: rate-limit: a window of 1s passes only 125 bytes", cube.ErrInvalid},
		{"POST", "p contract", `[{"traffic-class":2},{"traffic-class":3}]`, "3 contracts, but max-contracts is 2", cube.ErrFull},
		{"PATCH", "p max-contracts", `3`, "", nil},
		{"POST", "p contract 2", `{"action":"SHAPE"}`, "contract 2: queue: required by action SHAPE", cube.ErrInvalid},
		{"POST", "p contract 2", `{"action":"SHAPE","queue":"1"}`, "expected a class of a queueing discipline", nil},
	} {
		err := l.Try(c.method, c.words, c.body)
		if err == nil || !strings.Contains(err.Error(), c.why) || c.as != nil && !errors.Is(err, c.as) {
			t.Errorf("%s %s %s: %v, want %v: %s", c.method, c.words, c.body, err, c.as, c.why)
		}
	}
	l.Set("PUT", "p contract", `[{"traffic-class":2,"action":"DROP"},{"traffic-class":3}]`)
	l.Set("PUT", "p contract", `[{"traffic-class":1},{"traffic-class":4,"action":"DROP"}]`) // all others, where there is room for two
	fate(t, l, "a contract in the place of another", of(4), "contract-drops")
	fate(t, l, "one that is gone", of(2), "pass")
	counted(t, l, "contract 4", counts{0, 0, 1, size, 0})
	if out := l.Action("p update-data", "{}"); !strings.Contains(out, "true") {
		t.Errorf("update-data answers %s", out)
	}
	fate(t, l, "after all that", of(1), "pass")
	xdp := bpftest.New(t, bpftest.Options{Hosts: 1, Type: cube.TypeXDPDRV})
	policed(xdp, "")
	if err := xdp.Try("POST", "p contract 2", `{"action":"SHAPE","queue":"1:a"}`); !errors.Is(err, cube.ErrUnsupported) || !strings.Contains(err.Error(), "create the policer with type=TC") {
		t.Errorf("SHAPE at XDP: %v", err)
	}
}

// TestManyContracts are made in a few requests, and one more costs what it costs among few.
func TestManyContracts(t *testing.T) {
	const many = 100_000
	l := bpftest.New(t, bpftest.Options{Hosts: 1, Type: cube.TypeXDPDRV})
	policed(l, fmt.Sprintf(`{"max-contracts":%d}`, many))
	begin := time.Now()
	for at := 1; at <= many; at += many / 4 {
		var body strings.Builder
		for i := range many / 4 {
			fmt.Fprintf(&body, `%s{"traffic-class":%d,"action":"LIMIT","rate-limit":10000}`, map[bool]string{true: ",", false: "["}[i > 0], at+i)
		}
		l.Set("POST", "p contract", body.String()+"]")
	}
	t.Logf("%d contracts are made in %s", many, time.Since(begin))
	fate(t, l, "one of them", of(50_000), "pass")
	counted(t, l, "contract 50000", counts{1, size, 0, 0, 0})
	begin = time.Now()
	for i := range 20 {
		l.Set("PATCH", fmt.Sprintf("p contract %d rate-limit", 1+i*1000), "20000")
	}
	t.Logf("a change takes %s", time.Since(begin)/20)
	l.Restart(nil)
	fate(t, l, "after a restart", of(50_000), "pass")
	counted(t, l, "contract 50000", counts{2, 2 * size, 0, 0, 0})
}
