// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// sender answers a line with the address that it came from.
func sender(from net.Addr, _ string) string { return from.String() }

// asked is a connection, and seenAs the address and port that the other side sees.
type asked struct {
	t *testing.T
	net.Conn
	answers *bufio.Reader
}

func connectTo(t *testing.T, host *netns.Node, address string) *asked {
	t.Helper()
	var c net.Conn
	host.Must(func() (err error) { c, err = net.DialTimeout("tcp", address, patience); return err })
	t.Cleanup(func() { _ = c.Close() })
	return &asked{t, c, bufio.NewReader(c)}
}

func (a *asked) seenAs() string {
	a.t.Helper()
	_ = a.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(a, "who am I"); err != nil {
		a.t.Fatal(err)
	}
	line, err := a.answers.ReadString('\n')
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// TestMasqueradeInOneCommand: hosts behind the machine reach others with its address, across kills of the daemon; the
// command reports problems and the current state, and reverses its changes.
func TestMasqueradeInOneCommand(t *testing.T) {
	t.Parallel()
	d := start(t)
	lan, wan := d.lab.Host("lan0", "10.0.0.2/24"), d.lab.Host("wan0", "203.0.113.2/24")
	d.lab.Run("ip", "addr", "add", "10.0.0.1/24", "dev", "lan0")
	d.lab.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	lan.Run("ip", "route", "add", "default", "via", "10.0.0.1")
	want := func(code int, out string, words ...string) {
		t.Helper()
		if r := d.CLI(words...); r.code != code || !strings.Contains(r.stdout+r.stderr, out) {
			t.Errorf("%v, want exit %d and %q", r, code, out)
		}
	}
	want(2, "none0", "masquerade", "none0")
	want(2, "wan0 has no address", "masquerade", "wan0")
	want(0, "", "masquerade")
	d.Do("router add r1")
	d.Do("r1 ports add wan")
	want(2, "r1:wan has no address", "masquerade", "r1:wan")
	want(2, "did you mean wan?", "masquerade", "r1:lan")
	d.Do("r1 ports wan set ip=192.0.2.1/24")
	want(0, "r1:wan is masqueraded by masquerade-r1-wan: 192.0.2.1\n", "masquerade", "r1:wan")
	want(0, "masquerade-r1-wan", "masquerade", "del", "r1:wan")
	d.Do("router del r1")
	d.lab.Run("ip", "addr", "add", "203.0.113.1/24", "dev", "wan0")
	wan.AnswerLines("203.0.113.2:7000", sender)
	want(0, "wan0 is masqueraded by masquerade-wan0: 203.0.113.1\n", "masquerade", "wan0")
	want(0, "wan0 is already masqueraded by masquerade-wan0: 203.0.113.1", "masquerade", "wan0")
	c := connectTo(t, lan, "203.0.113.2:7000")
	as := c.seenAs()
	if !strings.HasPrefix(as, "203.0.113.1:") {
		t.Errorf("the other side sees %s", as)
	}
	want(0, "wan0   masquerade-wan0  203.0.113.1", "masquerade", "show")
	want(0, "10.0.0.2 203.0.113.2", "masquerade-wan0", "natting-table", "show", "?")
	want(0, "10.0.0.2", "masquerade-wan0", "natting-table", "show", "-limit=1")
	want(0, "[]", "masquerade-wan0", "natting-table", "show", "-limit=1", "-filter=proto=udp", "-json")

	d.Kill9()
	if got := c.seenAs(); got != as {
		t.Errorf("without a daemon the other side sees %s, not %s", got, as)
	}
	d = d.machine.Start()
	if got := c.seenAs(); got != as {
		t.Errorf("with the next daemon the other side sees %s, not %s", got, as)
	}
	want(0, "203.0.113.1", "masquerade", "show", "wan0")
	netns.Eventually(t, patience, func() error {
		_, text, err := d.Request(http.MethodGet, "/metrics", "")
		if err == nil && !strings.Contains(text, `nat_sessions_tcp{cubeName="masquerade-wan0"} 1`) {
			i := max(0, strings.Index(text, "nat_sessions_tcp"))
			err = fmt.Errorf("one session of TCP is not in the metrics: %s", text[i:min(i+300, len(text))])
		}
		return err
	})
	// A rule added in between does not affect it.
	want(0, "id: 0", "masquerade-wan0", "rule", "snat", "append", "internal-net=10.9.0.0/24", "external-ip=203.0.113.7")
	d.Kill9()
	d = d.machine.Start()
	if got := c.seenAs(); got != as {
		t.Errorf("after another rule the other side sees %s, not %s", got, as)
	}
	want(0, "masquerade-wan0 stays, because it has other rules or ports", "masquerade", "del", "wan0")
	want(0, "wan0 is masqueraded by masquerade-wan0, an existing cube", "masquerade", "wan0")
	d.Do("masquerade-wan0 rule snat del")
	want(0, "wan0 is no longer masqueraded; masquerade-wan0 is deleted", "masquerade", "del", "wan0")
	want(2, "wan0 is not masqueraded", "masquerade", "del", "wan0")
	want(2, "wan0 is not masqueraded", "masquerade", "show", "wan0")
}
