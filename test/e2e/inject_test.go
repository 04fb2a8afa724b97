// SPDX-License-Identifier: Apache-2.0

// The path of a packet is computed without sending it, and without side effects.

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func TestInjectTellsWhatWouldHappen(t *testing.T) {
	onEachHook(t, func(t *testing.T, _ string, d *daemon, hosts [3]*netns.Node) {
		reaches(t, hosts[0], "10.0.0.3")
		// Five seconds after a packet, a kernel probes its neighbour.
		for i, other := range map[int]*netns.Node{0: hosts[2], 2: hosts[0]} {
			hosts[i].Run("ip", "neigh", "replace", other.Addr.Addr().String(), "lladdr", other.MAC.String(), "dev", netns.Inner, "nud", "permanent")
		}
		d.calm("br1")
		quiet := netns.OpenRaw(t, hosts[2], netns.Inner)
		before, topology := d.Stats("br1"), d.Configuration()
		unicast := "eth 02:00:00:00:00:77 > " + hosts[2].MAC.String() + " / ip 10.0.0.77 > 10.0.0.3 / udp 1000 > 53 / payload 20"
		out := d.CLI("trace", "--inject", unicast, "br1:p1")
		want := []string{`^br1:p1 +in +inject +02:00:00:00:00:77 > ` + hosts[2].MAC.String() + `, 10\.0\.0\.77\.1000 > 10\.0\.0\.3\.53: UDP, length 62$`,
			`^br1:p1 +in +send up +10\.0\.0\.77\.1000 > 10\.0\.0\.3\.53: UDP, length 62$`,
			`^br2:up +in +send p3 +10\.0\.0\.77`, `^br2 +leave veth3 +10\.0\.0\.77`}
		if err := tells(out.stdout, want); err != nil || out.code != 0 || strings.Count(out.stdout, "\n") != len(want) {
			t.Errorf("unicast: %v, %v", err, out)
		}
		out = d.CLI("trace", "--inject", "eth 02:00:00:00:00:77 > ff:ff:ff:ff:ff:ff / arp who-has 10.0.0.3 tell 10.0.0.77", "veth1")
		told := strings.Join(strings.Fields(out.stdout), " ")
		for _, line := range []string{"br1:p1 in flood", "br1 leave veth2", "br2:up in flood", "br2 leave veth3"} {
			if strings.Count(told, line) != 1 {
				t.Errorf("a broadcast does not tell %q once: %v", line, out)
			}
		}
		for i, f := range before.Ports {
			if now := d.Stats("br1").Ports[i]; now != f {
				t.Errorf("port %s counts %+v, before %+v", f.Name, now, f)
			}
		}
		if now := d.Configuration(); now != topology {
			t.Errorf("something was learned:\n%s\nbefore\n%s", now, topology)
		}
		if strings.Contains(d.Do("br1 fdb show"), "02:00:00:00:00:77") {
			t.Error("the address of an injected packet was learned")
		}
		if f, err := quiet.Recv(func(f []byte) bool { return strings.Contains(string(f), "\x02\x00\x00\x00\x00\x77") }, 0); err == nil {
			t.Errorf("an injected packet was sent: % x", f)
		}
	})
}

// TestInjectFillsInTheAddressOfTheRouter: a packet without an eth layer is sent to the router's port that it reaches,
// also through transparent cubes. A packet with one, or at a bridge, is unchanged.
func TestInjectFillsInTheAddressOfTheRouter(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			d.lab.Host("veth1", "")
			d.lab.Host("veth2", "")
			d.Do("router add r1 type=" + kind)
			d.Do("r1 ports add p1 peer=veth1 ip=10.0.1.1/24")
			d.Do("r1 ports add p2 peer=veth2 ip=10.0.2.1/24 mac=02:00:00:00:02:01")
			d.Do("r1 arp-table add 10.0.1.2 mac=02:00:00:00:00:12 interface=p1")
			d.Do("r1 arp-table add 10.0.2.2 mac=02:00:00:00:00:22 interface=p2")
			d.Do("transparenthelloworld add th1 type=" + kind)
			d.Do("attach th1 r1:p2")
			d.Do("bridge add br1 type=" + kind)
			d.Do("br1 ports add p1 mac=02:00:00:00:03:01")
			d.calm("r1")
			mac := strings.TrimSpace(d.Do("r1 ports p1 show mac"))
			there, back := "ip 10.0.1.2 > 10.0.2.2 / udp 1 > 2", "ip 10.0.2.2 > 10.0.1.2 / udp 1 > 2"
			for _, c := range []struct{ packet, at, to, then string }{
				{there, "r1:p1", mac, `r1:p1 +in +send p2`}, {there, "veth1", mac, `r1:p1 +in +send p2`},
				{back, "r1:p2", "02:00:00:00:02:01", `r1:p2 +in +send p1`},
				{back, "veth2", "02:00:00:00:02:01", `r1:p2 +in +send p1`}, {back, "th1", "02:00:00:00:02:01", `r1:p2 +in +send p1`},
				{"eth 02:00:00:00:00:12 > 02:00:00:00:00:99 / " + there, "r1:p1", "02:00:00:00:00:99", `r1:p1 +in +drop not-for-us`},
				{there, "br1:p1", "02:00:00:00:00:02", `br1:p1 +in`},
			} {
				r := d.CLI("trace", "--inject", c.packet, c.at)
				first := regexp.QuoteMeta(c.at)
				if !strings.Contains(c.at, ":") {
					first = `\S+`
				}
				story := []string{"^" + first + ` +in +inject +02:00:00:00:00:(01|12) > ` + c.to + `, 10\.0`, c.then}
				if err := tells(r.stdout, story); r.code != 0 || err != nil {
					t.Errorf("%s at %s: %v, %v", c.packet, c.at, err, r)
				}
			}
		})
	}
}

func TestInjectTakesPacketsFromFilesAndRefusesNonsense(t *testing.T) {
	t.Parallel()
	d := start(t)
	host := d.lab.Host("veth1", "10.0.0.1/24")
	d.Do("helloworld add h1")
	d.Do("h1 ports add p1 peer=veth1")
	d.calm("h1")
	file := filepath.Join(d.dir, "h1.pcapng")
	w := d.watch("capture", "h1:p1", "ether", "src", host.MAC.String(), "-c", "1", "-w", file)
	in := netns.OpenRaw(t, host, netns.Inner)
	netns.Eventually(t, patience, func() error {
		if err := in.Send(probe(host.MAC, 100)); err != nil {
			return err
		}
		_, err := readCapture(file)
		return err
	})
	netns.Eventually(t, patience, func() error {
		if err := in.Send(probe(host.MAC, 100)); err != nil {
			return err
		}
		select {
		case <-w.ended:
			return nil
		default:
			return os.ErrDeadlineExceeded
		}
	})
	if r := d.CLI("trace", "--inject", "@"+file, "h1:p1"); r.code != 0 || !strings.Contains(r.stdout, "drop action-drop") ||
		!strings.Contains(r.stdout, "length 100") {
		t.Errorf("from a file: %v", r)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"@" + file + ":9", "h1:p1"}, 64, "fewer packets"},
		{[]string{"@/nowhere", "h1:p1"}, 64, "no such file"},
		{[]string{"@/etc/passwd", "h1:p1"}, 64, "read the file"},
		{[]string{"nonsense", "h1:p1"}, 2, "unknown layer"},
		{[]string{"0102", "h1:p1"}, 2, "it has 2 bytes"},
		{[]string{"ip 1.1.1.1 > 2.2.2.2", "h1:p9"}, 2, "not found"},
		{[]string{"ip 1.1.1.1 > 2.2.2.2"}, 64, "then CUBE:PORT"},
	} {
		if r := d.CLI(append([]string{"trace", "--inject"}, c.args...)...); r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("want exit %d and %q: %v", c.code, c.says, r)
		}
	}
	d.Alive()
}
