// SPDX-License-Identifier: Apache-2.0

package firewall_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// peers are two hosts with a firewall fw in between: what far sends comes in, and what near sends goes out.
type peers struct {
	*guarded
	far, near *netns.Node
}

const (
	farIP, nearIP   = "10.0.0.1", "10.0.0.2"
	farIP6, nearIP6 = "2001:db8::1", "2001:db8::2"
)

// eachType runs a test with real traffic at each hook.
func eachType(t *testing.T, body string, test func(t *testing.T, p *peers)) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			o := bpftest.Options{Type: typ, Hosts: 2, Host: []netns.Option{netns.WithIPv6()}}
			if typ != cube.TypeTC {
				o.Host = append(o.Host, netns.WithoutTxChecksum(), netns.WithGRO())
			}
			l := bpftest.New(t, o)
			p := &peers{guard(t, l, body), l.Hosts[0], l.Hosts[1]}
			for host, addresses := range map[*netns.Node][]string{p.far: {farIP + "/24", farIP6 + "/64"}, p.near: {nearIP + "/24", nearIP6 + "/64"}} {
				for _, a := range addresses {
					host.Run("ip", "addr", "add", a, "dev", netns.Inner, "nodad")
				}
			}
			test(t, p)
		})
	}
}

var patience = pace.Stretch(10 * time.Second)

// ask opens a connection from a host, sends a line, and returns the answer.
func ask(host *netns.Node, network, address string, within time.Duration) (answer string, err error) {
	err = host.Do(func() error {
		c, err := net.DialTimeout(network, address, within)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if err := c.SetDeadline(time.Now().Add(within)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(c, "hello"); err != nil {
			return err
		}
		answer, err = bufio.NewReader(c).ReadString('\n')
		return err
	})
	return answer, err
}

func TestSendersOfRejectedPacketsAreTold(t *testing.T) {
	eachType(t, `{"families":["ipv4","ipv6"]}`, func(t *testing.T, p *peers) {
		echo := func(_ net.Addr, line string) string { return line }
		p.near.AnswerLines(net.JoinHostPort(nearIP, "7000"), echo)
		p.near.AnswerLines(net.JoinHostPort(nearIP6, "7000"), echo)
		for _, address := range []string{nearIP, nearIP6} {
			if got, err := ask(p.far, "tcp", net.JoinHostPort(address, "7000"), patience); err != nil || got != "hello\n" {
				t.Fatalf("without rules: %q, %v", got, err)
			}
		}
		for _, c := range []struct {
			rule    string
			network string
			want    []syscall.Errno
		}{
			{`{"l4proto":"TCP","dport":7000,"action":"REJECT"}`, "tcp", []syscall.Errno{syscall.ECONNREFUSED}},
			{`{"l4proto":"UDP","dport":7000,"action":"REJECT"}`, "udp", []syscall.Errno{syscall.ECONNREFUSED}},
			{`{"l4proto":"UDP","reject-with":"admin-prohibited","action":"REJECT"}`, "udp", []syscall.Errno{syscall.EHOSTUNREACH, syscall.EACCES}},
			{`{"reject-with":"host-unreachable","action":"REJECT"}`, "tcp", []syscall.Errno{syscall.EHOSTUNREACH}},
		} {
			p.Set("POST", "fw chain INGRESS rule 0", c.rule)
			for i, address := range []string{nearIP, nearIP6} {
				want := c.want[min(i, len(c.want)-1)]
				if _, err := ask(p.far, c.network, net.JoinHostPort(address, "7000"), patience); !errors.Is(err, want) {
					t.Errorf("%s, %s to %s: %v, want %v", c.rule, c.network, address, err, want)
				}
			}
		}
		p.Set("POST", "fw chain EGRESS rule 0", `{"l4proto":"TCP","dport":7001,"action":"REJECT"}`)
		p.far.AnswerLines(net.JoinHostPort(farIP, "7001"), echo)
		if _, err := ask(p.near, "tcp", net.JoinHostPort(farIP, "7001"), patience); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("on the way out: %v; fates %v, of the forwarder %v", err, p.Fates("fw"), p.Fates("f"))
		}
		if got := p.Fates("fw"); got["rejected-and-told"] < 9 || got["rejected-silently"] != 0 {
			t.Errorf("fates: %v", got)
		}
	})
}

func TestPacketsAreLogged(t *testing.T) {
	eachType(t, "", func(t *testing.T, p *peers) {
		p.Action("fw chain INGRESS append", `{"dport":9,"action":"DROP"}`)
		p.Action("fw chain INGRESS append", `{"src":"10.0.0.0/24","action":"LOG","description":"from the net"}`)
		p.Action("fw chain INGRESS append", `{"l4proto":"TCP","action":"LOG","description":"and TCP"}`)
		p.Action("fw chain INGRESS append", `{"dport":8,"action":"DROP"}`)
		p.Action("fw chain INGRESS append", `{"dport":8,"action":"LOG","description":"never"}`)
		wires := p.Wires()
		send := func(sport, dport uint16) []byte {
			frame := pkt.Eth(macOut, macIn).IPv4(farIP, nearIP).UDP(sport, dport).Payload(30).Bytes()
			wires[0].Puts(frame)
			return frame
		}
		send(1, 9)
		send(2, 8)
		wires[1].Gets(send(3, 7))
		wires[0].Puts(pkt.Eth(macOut, macIn).IPv4(farIP, nearIP).TCP(4, 5, pkt.TCPFlags{SYN: true, PSH: true}).Bytes())
		line := `IN=f:p1 OUT= MAC=02:00:00:00:00:02:02:00:00:00:00:01:08:00 SRC=10.0.0.1 DST=10.0.0.2 LEN=58 TOS=0x00 PREC=0x00 TTL=64 ID=0 PROTO=UDP SPT=`
		netns.Eventually(t, bpftest.Patience, func() error {
			logs := p.Logs()
			for _, want := range []string{line + "2 DPT=8 LEN=38", line + "3 DPT=7 LEN=38", "SPT=4 DPT=5 WINDOW=65535 RES=0x00 PSH SYN URGP=0", `"from the net"`, `"and TCP"`} {
				if !strings.Contains(logs, want) {
					return fmt.Errorf("the log lacks %s:\n%s", want, logs)
				}
			}
			return nil
		})
		if logs := p.Logs(); strings.Contains(logs, "SPT=1 DPT=9") || strings.Contains(logs, "never") {
			t.Errorf("too much is logged:\n%s", logs)
		}
		p.counted("INGRESS", "1 72", "3 198", "1 54", "1 72", "0 0", "2 126")
	})
}

func TestTheLogIsLimited(t *testing.T) {
	l := bpftest.New(t, hosts)
	g := guard(t, l, `{"log-limit":5}`)
	g.Action("fw chain INGRESS append", `{"action":"LOG"}`)
	for i := range 100 {
		g.in("", udp(outside, inside, uint16(i), 5), "")
	}
	g.counted("INGRESS", "100 7200", "100 7200")
	lines := regexp.MustCompile(`IN=f:p1`)
	if n := len(lines.FindAllString(g.Logs(), -1)); n > 20 {
		t.Errorf("%d lines of 100 packets", n)
	}
}

func TestRulesHaveLimits(t *testing.T) {
	bpftest.Each(t, hosts, func(t *testing.T, l *bpftest.Lab) {
		g := guard(t, l, `{"chain":[{"name":"INGRESS","default":"DROP"}]}`)
		g.Action("fw chain INGRESS append", `{"dport":1,"limit":"1/day","limit-burst":3,"action":"ACCEPT"}`)
		g.Action("fw chain INGRESS append", `{"dport":2,"limit":"1/hour","limit-by":"SOURCE","action":"ACCEPT"}`)
		send := func(from string, dport uint16, within, above int) {
			t.Helper()
			for i := range within + above {
				drop := ""
				if i >= within {
					drop = "over-limit"
				}
				g.in(fmt.Sprintf("packet %d of %s to %d", i, from, dport), udp(from, inside, uint16(1000+i), dport), drop)
			}
		}
		send("192.0.2.1", 1, 3, 2)
		send("192.0.2.2", 1, 0, 1)
		send("192.0.2.1", 2, 5, 2)
		send("192.0.2.2", 2, 5, 2)
		g.counted("INGRESS", "6 432", "14 1008", "0 0")
		g.Restart(nil)
		send("192.0.2.3", 1, 0, 1)
		g.Set("POST", "fw chain INGRESS rule 0", `{"dport":1,"action":"ACCEPT"}`)
		send("192.0.2.3", 1, 4, 0)
	})
}
