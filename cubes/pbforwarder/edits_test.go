// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// Very many rules: the time for loading and editing, and that packets never see a part of a change.

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
)

// manyRules is the JSON of n rules of a shape, with ids that leave room.
func manyRules(shape string, n int) string {
	rules := generated(shape, n, 1)
	texts := make([]string, n)
	for i := range rules {
		texts[i] = text(10*i+10, &rules[i], "")
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// TestTimedAnEditCostsLittleAmongManyRules prints the times; it asserts that an edit is much faster than a load, and
// within the promised 50 ms.
func TestTimedAnEditCostsLittleAmongManyRules(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	l.Create("pbforwarder", "f", threePorts)
	for _, shape := range []string{"acl", "fw", "overlapping", "ranges", "singles"} {
		const n = 10000
		body := manyRules(shape, n)
		load, _ := repeat.Times(1, func(int) { l.Set("PUT", "f rules", body) })
		edit := map[string]func(i int){
			"front":  func(i int) { l.Set("POST", fmt.Sprintf("f rules %d", i), `{"dst_ip":"10.1.2.3","dst_port":77}`) },
			"middle": func(i int) { l.Set("POST", fmt.Sprintf("f rules %d", 50001+i), `{"src_ip":"10.0.0.0/9"}`) },
			"end":    func(i int) { l.Set("POST", fmt.Sprintf("f rules %d", 500000+i), `{"dst_port":"1-60000"}`) },
			"change": func(i int) { l.Set("PATCH", fmt.Sprintf("f rules %d", 30000+10*i), `{"dst_port":"2-3","l4_proto":6}`) },
			"delete": func(i int) { l.Set("DELETE", fmt.Sprintf("f rules %d", 60000+10*i), "") },
		}
		for _, what := range []string{"front", "middle", "end", "change", "delete"} {
			took, _ := repeat.Times(9, edit[what])
			t.Logf("%s: %d rules are loaded in %v, one edit (%s) takes %v", shape, n, load, what, took)
			if took > load/2 || took > 50*time.Millisecond {
				t.Errorf("%s: an edit (%s) takes %v, loading all rules %v", shape, what, took, load)
			}
		}
	}
}

// TestAPacketNeverSeesAPartOfAChange swaps two rules at once, such that each pair of an old and a new one would drop
// packets that both old ones and both new ones pass.
func TestAPacketNeverSeesAPartOfAChange(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		rest := strings.TrimSuffix(manyRules("acl6", 300)[1:], "]") // none of them is about IPv4
		pairs := []string{
			`{"id":0,"dst_port":53,"action":"FORWARD","out_port":"p2"},{"id":1,"action":"DROP"}`,
			`{"id":0,"dst_port":99,"action":"DROP"},{"id":1,"action":"FORWARD","out_port":"p2"}`,
		}
		swap := func(i int) {
			// Now and then many more rules, so that the set moves; and a member that was not read before.
			more := rest
			if i%5 == 4 {
				more = fmt.Sprintf(`{"id":%d,"vlan":77,"src_mac":"02:00:00:00:00:77"}`, i+100000)
			}
			l.Set("PUT", "f rules", "["+pairs[i%2]+","+more+"]")
		}
		l.Create("pbforwarder", "f", threePorts)
		swap(0)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					l.Flood("veth1", udp4, 5000)
				}
			}
		})
		for i := range 12 {
			swap(i + 1)
			l.Set("POST", fmt.Sprintf("f rules %d", 200000+i), `{"dst_ip":"10.0.1.2"}`) // after them
		}
		close(stop)
		wg.Wait()
		sent := l.Counters("f", "p2").TxPackets
		if fates := l.Fates("f"); len(fates) > 0 || sent == 0 {
			t.Errorf("%d packets were sent, and some met %v", sent, fates)
		}
	})
}
