// SPDX-License-Identifier: Apache-2.0

package inspect

// What the worker decides, and when: flows of the cube, with packets of conversations.

import (
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/ring"
)

// one is a talk by its name.
func one(t *testing.T, name string) talk {
	t.Helper()
	for _, is := range talks(t) {
		if is.name == name {
			return is
		}
	}
	t.Fatalf("there is no talk %s", name)
	return talk{}
}

// only is what is known of the one flow.
func (r *rig) only(t *testing.T) found {
	t.Helper()
	all, _ := r.flows(t)
	if len(all) != 1 {
		t.Fatalf("flows are %v, want one", all)
	}
	for _, is := range all {
		return is
	}
	return found{}
}

func TestAPolicyFollowsTheNameInAHandshake(t *testing.T) {
	r := newRig(t, `{"policy":[{"kind":"PROTOCOL","name":"NetFlix","action":"DROP"}]}`, 16, 100)
	frames := one(t, "netflix").frames(1) // its ClientHello fits a segment
	r.play(t, frames[:4])                 // up to the ClientHello
	if is := r.only(t); is.protocol != "TLS.NetFlix" {
		t.Errorf("after the ClientHello the flow is %+v", is)
	}
	if got := r.Run("veth2", frames[4].bytes); got.Fate != "c policy" {
		t.Errorf("the next packet: %+v, want it to be dropped", got)
	}
	if n := r.counts.Decided.Load(); n != 1 {
		t.Errorf("%d flows decided, want 1", n)
	}
}

func TestASilentFlowIsGuessedUntilItSaysMore(t *testing.T) {
	r := newRig(t, "", 16, 100)
	ssh := one(t, "ssh")
	odd := talk{protocol: tcp, port: 22, messages: []string{"c\x01\x02\x03", ssh.messages[0], ssh.messages[1]}}
	frames := odd.frames(1)
	r.play(t, frames[:4])
	if is := r.only(t); is.state != "INSPECTED" {
		t.Errorf("after three bytes the flow is %+v", is)
	}
	r.silence(t)
	if is := r.only(t); is.protocol != "SSH" || is.state != "GUESSED" {
		t.Errorf("a silent flow to port 22 is %+v, want a guess of SSH", is)
	}
	r.play(t, frames[4:])
	if is := r.only(t); is.protocol != "SSH" || is.state != "CLASSIFIED" {
		t.Errorf("after banners it is %+v, want SSH for sure", is)
	}
	if n := r.worker.flows.size.Load(); n != 1 {
		t.Errorf("%d flows in memory, want 1", n)
	}
}

func TestTwoSamplesOfAnotherProtocolChangeAFlow(t *testing.T) {
	r := newRig(t, `{"sample-interval":64}`, 16, 100)
	dns := one(t, "dns")
	r.play(t, dns.frames(1))
	if is := r.only(t); is.protocol != "DNS" {
		t.Fatalf("the flow is %+v, want DNS", is)
	}
	sip := talk{protocol: udp, port: 53, messages: one(t, "sip").messages}
	before := false
	for i := range 200 {
		r.play(t, sip.frames(1)[:1])
		if is := r.only(t); is.protocol == "SIP" {
			if i < 70 {
				t.Errorf("one sample, of packet %d, has changed the flow", i)
			}
			before = true
		}
	}
	if is := r.only(t); is.protocol != "SIP" || !before || r.counts.Changed.Load() != 1 {
		t.Errorf("after three samples of SIP the flow is %+v, changed %d times", is, r.counts.Changed.Load())
	}
}

func TestMemoryIsBounded(t *testing.T) {
	r := newRig(t, "", 16, 20)
	for n := range 50 {
		r.play(t, one(t, "unknown").frames(n)[:1])
	}
	if got := r.worker.flows.size.Load(); got != 20 || r.counts.Evicted.Load() != 30 {
		t.Errorf("%d flows in memory, %d decided early, want 20 and 30", got, r.counts.Evicted.Load())
	}
	all, _ := r.flows(t)
	gaveUp := 0
	for _, is := range all {
		if is.state == "GAVE_UP" {
			gaveUp++
		}
	}
	if gaveUp != 30 {
		t.Errorf("%d flows were given up, want 30", gaveUp)
	}
	now, err := cube.Time()
	if err != nil {
		t.Fatal(err)
	}
	r.worker.sweep(time.Duration(now) + forgetAfter + time.Second)
	if got := r.worker.flows.size.Load(); got != 0 {
		t.Errorf("%d flows in memory after a long silence, want none", got)
	}
}

func TestAnotherClassifierDecidesWhatTheFirstOneDidNot(t *testing.T) {
	r := newRig(t, `{"inspect-packets":1}`, 1, 100)
	request := one(t, "sip").frames(1)[0]
	for range 63 {
		r.Run("veth1", request.bytes)
	}
	if n := r.tables.Packets.Read(func(*ring.Packet) {}); n != 1 { // the first one dies with it
		t.Errorf("%d packets were copied, want 1", n)
	}
	r.play(t, []frame{request})
	if is := r.only(t); is.protocol != "SIP" {
		t.Errorf("after 64 packets the flow is %+v", is)
	}
}

func TestRisksAreReportedOnce(t *testing.T) {
	r := newRig(t, "", 16, 100)
	r.play(t, one(t, "tls12").frames(1)) // its certificate is self-signed
	r.play(t, one(t, "tls12").frames(1))
	var set uint64
	for _, fresh := range r.risks {
		if set&fresh != 0 {
			t.Errorf("risks %x were reported twice: %x", fresh, r.risks)
		}
		set |= fresh
	}
	if !strings.Contains(strings.Join(risks(set), ", "), "Self-signed") {
		t.Errorf("risks are %q, want a self-signed certificate", risks(set))
	}
}

func TestPacketsThatAreNoneAreCounted(t *testing.T) {
	r := newRig(t, "", 16, 100)
	for _, data := range [][]byte{nil, make([]byte, 13), make([]byte, 60), {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45}} {
		r.worker.see(&ring.Packet{Data: data})
	}
	if got := r.counts.Malformed.Load(); got != 4 {
		t.Errorf("%d packets are malformed, want 4", got)
	}
}

func TestTheBeatIsThatOfTheOldestPacketNotSeen(t *testing.T) {
	w := &worker{}
	for _, tt := range []struct {
		what      string
		done, now time.Duration
		idle      bool
		want      time.Duration
	}{
		{"packets wait, none was seen", 0, time.Second, false, 0},
		{"packets wait", 3 * time.Second, 4 * time.Second, false, 3 * time.Second},
		{"nothing to do", 3 * time.Second, 9 * time.Second, true, 9 * time.Second},
		{"packets wait again, the last one is older than what was told", 8 * time.Second, 10 * time.Second, false, 9 * time.Second},
		{"the last one is of the future", 20 * time.Second, 11 * time.Second, false, 11 * time.Second},
	} {
		w.done.Store(int64(tt.done))
		if got := w.beat(tt.now, tt.idle); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
}

func TestAFlowThatEndsIsForgotten(t *testing.T) {
	r := newRig(t, "", 16, 100)
	r.play(t, one(t, "http").frames(1))
	var e dpi.Ended
	for key := range r.worker.flows.by {
		is, ok, err := r.tables.Flow(key)
		if err != nil || !ok {
			t.Fatalf("the flow is not there: %v", err)
		}
		e = dpi.Ended{Key: key, Flow: is}
	}
	other := e
	other.Flow.ID++
	if d := r.worker.ended(&other); d != (details{}) || r.worker.flows.size.Load() != 1 {
		t.Errorf("another flow with these ports: %+v, %d in memory", d, r.worker.flows.size.Load())
	}
	if d := r.worker.ended(&e); d.host != "www.example.com" || r.worker.flows.size.Load() != 0 {
		t.Errorf("the flow: %+v, %d in memory, want the host and none", d, r.worker.flows.size.Load())
	}
}

// latencies are counted by powers of two.
func TestQuantiles(t *testing.T) {
	var l latency
	if got := l.quantile(0.99); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	l.of[3].Store(98)
	l.of[10].Store(2)
	if p50, p99 := l.quantile(0.5), l.quantile(0.99); p50 != 8*time.Microsecond || p99 != 1024*time.Microsecond {
		t.Errorf("median %v and 99 %% %v, want 8 µs and 1024 µs", p50, p99)
	}
}
