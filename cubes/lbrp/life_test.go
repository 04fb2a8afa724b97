// SPDX-License-Identifier: Apache-2.0

package lbrp

// How long sessions last, how many there are, and what survives.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestSessionsSurviveARestart(t *testing.T) {
	each(t, one80(`"select":"LEAST_CONNECTIONS",`), func(t *testing.T, l *bpftest.Lab) {
		all := map[uint16]string{}
		for port := range uint16(60) {
			all[port] = server(l, request("10.0.1.2", 1000+port, syn))
		}
		var frames [][]byte
		for port := range uint16(60) {
			frames = append(frames, request("10.0.1.2", 1000+port, ack))
		}
		l.Restart(func() {
			for n, out := range l.RunAll("veth1", frames) {
				if is := netip.AddrFrom4([4]byte(out[30:34])).String(); is != all[uint16(n)] {
					t.Fatalf("while the daemon is down, port %d goes from %s to %s", n, all[uint16(n)], is)
				}
			}
		})
		for port, was := range all {
			if is := server(l, request("10.0.1.2", 1000+port, ack)); is != was {
				t.Fatalf("after a restart, port %d goes from %s to %s", port, was, is)
			}
			sends(t, l, "veth2", fromServer().IPv4(was, "10.0.1.2").TCP(80, 1000+port, synAck).Bytes(),
				toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").TCP(80, 1000+port, synAck).Bytes())
		}
		if seen := several(l, "10.0.1.3", 1000, 30); seen["10.0.2.11"] != 10 || seen["10.0.2.12"] != 10 {
			t.Errorf("30 more sessions after a restart: %v", seen)
		}
		l.Set("DELETE", "lb service 10.0.0.100 80 TCP backend 10.0.2.12 80", "")
		l.Restart(func() {})
		for port, was := range all {
			if is := server(l, request("10.0.1.2", 1000+port, ack)); (is == was) == (was == "10.0.2.12") {
				t.Fatalf("after a server is removed, port %d goes from %s to %s", port, was, is)
			}
		}
	})
}

func TestSessionsExpire(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		// What does not expire is there for a while; the sweep removes the others within seconds.
		l.Create("lbrp", "lb", `{`+twoPorts+`,"timeout":{"udp":1,"icmp":1,"sctp":1,"tcp-transitory":1,"tcp-established":3600},"service":[
			{"vip":"10.0.0.100","vport":80,"proto":"ALL","backend":[{"ip":"10.0.2.11","port":80}]},
			{"vip":"10.0.0.100","vport":80,"proto":"SCTP","backend":[{"ip":"10.0.2.11","port":80}]}]}`)
		sctp := append([]byte{0x0f, 0xa0, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8}, make([]byte, 20)...)
		for _, frame := range [][]byte{
			fromClient().IPv4("10.0.1.2", "10.0.0.100").UDP(4000, 80).Payload(3).Bytes(),
			fromClient().IPv4("10.0.1.2", "10.0.0.100").Echo(1, 1).Bytes(),
			fromClient().IPv4("10.0.1.2", "10.0.0.100").Protocol(132).Data(sctp).Bytes(),
			request("10.0.1.2", 4000, syn), request("10.0.1.2", 4001, syn),
		} {
			l.RunBytes("veth1", frame)
		}
		l.RunBytes("veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2").TCP(80, 4001, synAck).Bytes())
		l.RunBytes("veth1", request("10.0.1.2", 4001, ack))
		netns.Eventually(t, bpftest.Patience, func() error {
			var left []string
			for raw := range l.Entries("lb session") {
				left = append(left, string(raw))
			}
			if len(left) != 1 || !strings.Contains(left[0], `"client-port":4001`) || !strings.Contains(left[0], `"ESTABLISHED"`) {
				return fmt.Errorf("%s", left)
			}
			if n := l.Read("lb sessions active"); n != "1" {
				return fmt.Errorf("%s sessions were counted", n)
			}
			return nil
		})
	})
}

func TestAFullTableRefusesSessions(t *testing.T) {
	each(t, one80(`"affinity":0,`), func(t *testing.T, l *bpftest.Lab) {
		l.Set("PATCH", "lb max-sessions", "1024")
		var frames [][]byte
		for n := range 3000 {
			frames = append(frames, request(fmt.Sprintf("10.7.%d.%d", n>>8, n&255), 1000, syn))
		}
		opened := 0
		for i, out := range l.RunAll("veth1", frames) {
			if out != nil && string(out) != string(frames[i]) {
				opened++
			}
		}
		if opened < 1024 || opened > 1400 {
			t.Errorf("%d sessions were opened, 1,024 fit", opened)
		}
		if got := l.Run("veth1", request("10.8.0.1", 1000, syn)); got != dropped("table-full") {
			t.Errorf("one more session: %+v", got)
		}
		if is := server(l, request("10.7.0.0", 1000, ack)); !strings.HasPrefix(is, "10.0.2.") {
			t.Errorf("one that exists: %s", is)
		}
		if n := l.Read("lb sessions refused"); n == "0" {
			t.Error("no refused session was counted")
		}
		l.Set("PATCH", "lb max-sessions", "8192")
		if is := server(l, request("10.8.0.1", 1000, syn)); !strings.HasPrefix(is, "10.0.2.") {
			t.Errorf("in a larger table: %s", is)
		}
		if err := l.Try("PATCH", "lb max-clients", "5000"); err == nil {
			t.Error("max-clients was changed")
		}
	})
}

// TestAFloodOfSYNsPasses: of ten times the table. Connections that exist stay, and new ones are possible again after seconds, not minutes.
func TestAFloodOfSYNsPasses(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	create(l, one80(""))
	l.Set("PATCH", "lb max-sessions", "1024")
	const established, flood = 500, 10240
	at := func(n int, flags pkt.TCPFlags) []byte {
		return request(fmt.Sprintf("10.0.%d.%d", 4+n>>8, n&255), 1000, flags)
	}
	// where are the servers that the connections' packets go to; "" is one that is dropped.
	where := func(flags pkt.TCPFlags) (all []string) {
		var frames [][]byte
		for n := range established {
			frames = append(frames, at(n, flags))
		}
		for _, out := range l.RunAll("veth1", frames) {
			if out == nil {
				all = append(all, "")
				continue
			}
			all = append(all, netip.AddrFrom4([4]byte(out[30:34])).String())
		}
		return all
	}
	was := where(syn)
	var answers [][]byte
	for n, is := range was {
		if !strings.HasPrefix(is, "10.0.2.") {
			t.Fatalf("connection %d went to %q", n, is)
		}
		client := netip.AddrFrom4([4]byte(at(n, syn)[26:30])).String()
		answers = append(answers, fromServer().IPv4(is, client).TCP(80, 1000, synAck).Bytes())
	}
	l.RunAll("veth2", answers)
	if is := where(ack); !slices.Equal(is, was) {
		t.Fatal("connections went to other servers than in the beginning")
	}
	var frames [][]byte
	for n := range flood {
		frames = append(frames, request(fmt.Sprintf("10.7.%d.%d", n>>8, n&255), 1000, syn))
	}
	l.RunAll("veth1", frames)
	if got := l.Run("veth1", request("10.8.0.1", 1000, syn)); got != dropped("table-full") {
		t.Errorf("a new connection: %+v", got)
	}
	stay := func(when string) {
		t.Helper()
		for n, is := range where(ack) {
			if is != was[n] {
				t.Fatalf("%s, connection %d went to %q, and before to %s", when, n, is, was[n])
			}
		}
	}
	stay("in the flood")
	netns.Eventually(t, bpftest.Patience, func() error {
		if is := server(l, request("10.8.0.1", 1000, syn)); !strings.HasPrefix(is, "10.0.2.") {
			return fmt.Errorf("a new connection: %s", is)
		}
		return nil
	})
	stay("after the flood")
}

// TestASessionIsOpenedOnce: two CPUs get packets of the same new connections at the same time.
func TestASessionIsOpenedOnce(t *testing.T) {
	for _, how := range []string{"MAGLEV", "ROUND_ROBIN"} {
		t.Run(how, func(t *testing.T) {
			each(t, one80(`"select":"`+how+`",`), func(t *testing.T, l *bpftest.Lab) {
				var frames [][]byte
				for port := range uint16(100) {
					frames = append(frames, request("10.0.1.2", 1000+port, syn))
				}
				// One that finds the other CPU opening the session may be dropped; its sender repeats it.
				ports := make([]uint16, len(frames)) // that servers see: another one if the other CPU had claimed that of the client
				for n, got := range l.AtOnce("veth1", frames) {
					if got[0] == nil {
						got[0] = got[1]
					}
					if got[0] == nil || got[1] != nil && !bytes.Equal(got[0], got[1]) {
						t.Fatalf("packets of connection %d left as\n%x and\n%x", n, got[0], got[1])
					}
					ports[n] = binary.BigEndian.Uint16(got[0][34:])
				}
				sessions := 0
				for range l.Entries("lb session") {
					sessions++
				}
				if opened := l.Read("lb sessions opened"); sessions != 100 || opened != "100" {
					t.Errorf("%d sessions, %s opened, want 100", sessions, opened)
				}
				for port := range uint16(100) {
					was := server(l, request("10.0.1.2", 1000+port, ack))
					sends(t, l, "veth2", fromServer().IPv4(was, "10.0.1.2").TCP(80, ports[port], synAck).Bytes(),
						toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").TCP(80, 1000+port, synAck).Bytes())
				}
			})
		})
	}
}

// many are services with ten servers each.
func many(n int) string {
	var services []string
	for i := range n {
		var servers []string
		for s := range 10 {
			servers = append(servers, fmt.Sprintf(`{"ip":"10.%d.%d.%d","port":8080}`, 100+s, i>>8, i&255))
		}
		services = append(services, fmt.Sprintf(`{"vip":"10.1.%d.%d","vport":80,"proto":"TCP","backend":[%s]}`, i>>8, i&255, strings.Join(servers, ",")))
	}
	return strings.Join(services, ",")
}

// TestTimedAServerOfManyServices: it costs its own size.
func TestTimedAServerOfManyServices(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	start := time.Now()
	l.Create("lbrp", "lb", `{`+twoPorts+`,"max-backends":131072,"service":[`+many(10000)+`]}`)
	t.Logf("10,000 services with 10 servers each were made in %v", time.Since(start))
	frame := fromClient().IPv4("10.0.1.2", "10.1.39.15").TCP(1000, 80, syn).Bytes()
	if is := server(l, frame); !strings.HasSuffix(is, ".39.15") {
		t.Fatalf("a connection to the last service went to %s", is)
	}
	took := make([]time.Duration, 300)
	for i := range took {
		words := fmt.Sprintf("lb service 10.1.%d.%d 80 TCP backend 10.100.%d.%d 8080 weight", i>>8, i&255, i>>8, i&255)
		start := time.Now()
		l.Set("PATCH", words, "2")
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("a change of a server takes %v, 95 %% of them at most %v", median, took[len(took)*95/100])
	if median > 5*time.Millisecond {
		t.Errorf("a change of a server takes %v, at most 5 ms", median)
	}
	start = time.Now()
	l.Set("POST", "lb service 10.2.0.1 80 TCP", `{"backend":[{"ip":"10.0.2.11","port":80}]}`)
	t.Logf("a service more took %v", time.Since(start))
}
