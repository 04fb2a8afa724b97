// SPDX-License-Identifier: Apache-2.0

// A cube as a namespace: ordinary programs run inside, and their changes are the cube's.

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/shadow"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestOrdinaryProgramsRunInAShadowCube(t *testing.T) {
	t.Parallel()
	d := shadowMachine(t).Start()
	one, two, in := d.responds()
	in.reaches("10.0.1.2")
	in.reaches("10.0.2.2")
	reaches(t, one, "10.0.1.1")
	reaches(t, two, "10.0.2.1")
	if names := in.Must("ls /sys/class/net"); names != "lo\np1\np2\n" {
		t.Errorf("the namespace has %q, want lo, p1 and p2", names)
	}
	in.Must("sysctl -q -w net.ipv4.ip_forward=1")
	reaches(t, one, "10.0.2.2") // the kernel of the namespace routes
	transfer(t, one, two, 1<<20)
	if n := d.Stats("r1").Fate(t, "namespace"); n < 6 {
		t.Errorf("%d packets given to the namespace, want several", n)
	}
	d.Must(http.StatusOK, "PATCH", "/responder/r1/greeting", `"good morning"`) // greets only when it changes
	for _, port := range []string{"p1", "p2"} {
		r := netns.OpenRaw(t, in, port)
		d.Must(http.StatusOK, "PATCH", "/responder/r1/greeting", `"hello `+port+`"`)
		got, err := r.Recv(isStream, patience)
		if err != nil || !strings.HasPrefix(string(got[14:]), "hello "+port) {
			t.Errorf("the cube's code sends to %s: %q, %v", port, got, err)
		}
	}
}

func TestAddressesFollowBothWays(t *testing.T) {
	t.Parallel()
	d := shadowMachine(t).Start()
	one, _, in := d.responds()
	in.looks("p1", "02:00:00:00:01:01", "10.0.1.1/24")

	d.Do("r1 ports p1 set ip=10.0.1.7/24")
	in.looks("p1", "02:00:00:00:01:01", "10.0.1.7/24")
	reaches(t, one, "10.0.1.7")
	d.Do("r1 ports p1 set mac=02:00:00:00:01:07")
	in.looks("p1", "02:00:00:00:01:07", "10.0.1.7/24")

	in.Must("ip addr del 10.0.1.7/24 dev p1")
	d.has("r1", "p1", "02:00:00:00:01:07", "")
	in.Must("ip addr add 10.0.1.9/25 dev p1")
	d.has("r1", "p1", "02:00:00:00:01:07", "10.0.1.9/25")
	in.Must("ip link set p1 address 02:00:00:00:01:09")
	d.has("r1", "p1", "02:00:00:00:01:09", "10.0.1.9/25")
	in.reaches("10.0.1.2")

	// Changes that the cube refuses stay in the namespace, and the next accepted change synchronizes both.
	in.Must("ip addr add 10.9.9.9/32 dev p1")
	d.said("a port has one address")
	d.has("r1", "p1", "02:00:00:00:01:09", "10.0.1.9/25")
	in.Must("ip addr del 10.0.1.9/25 dev p1")
	d.has("r1", "p1", "02:00:00:00:01:09", "10.9.9.9/32")

	// A refused request changes neither side.
	d.Must(http.StatusBadRequest, "PATCH", "/responder/r1/ports/p1/ip", `"10.0.1.300/24"`)
	in.looks("p1", "02:00:00:00:01:09", "10.9.9.9/32")
	d.Alive()
}

func TestCarrierAndMTUOfThePeerShowInTheNamespace(t *testing.T) {
	t.Parallel()
	d := shadowMachine(t).Start()
	d.responds()
	in := d.inside("r1")
	is := func(port string, carrier bool, mtu int) {
		t.Helper()
		netns.Eventually(t, patience, func() error {
			info, err := in.link(port)
			if err == nil && (info.Carrier != carrier || info.MTU != mtu) {
				err = fmt.Errorf("%s: carrier %t, MTU %d, want %t, %d", port, info.Carrier, info.MTU, carrier, mtu)
			}
			return err
		})
	}
	is("p1", true, 1500)
	d.lab.Run("ip", "link", "set", "veth1", "mtu", "1400")
	is("p1", true, 1400)
	d.Do("disconnect r1:p1 veth1")
	is("p1", false, 1400)
	d.lab.Host("wide", "", netns.WithMTU(9000))
	d.Do("connect r1:p1 wide")
	is("p1", true, 9000)
	d.lab.Run("ip", "link", "set", "wide", "down")
	is("p1", false, 9000)
	is("p2", true, 1500)
}

func TestAPortSaysThatItsInterfaceIsDown(t *testing.T) {
	t.Parallel()
	d := shadowMachine(t).Start()
	d.lab.Host("veth1", "")
	d.Must(http.StatusCreated, "POST", "/simplebridge/br1", `{"shadow":true,"ports":[{"name":"p1","peer":"veth1"}]}`)
	in := d.inside("br1")
	says := func(want string) {
		t.Helper()
		netns.Eventually(t, patience, func() error {
			var p map[string]any
			d.Get("/simplebridge/br1/ports/p1", &p)
			if got := fmt.Sprint(p["status-reason"]); got != want {
				return fmt.Errorf("the port says %q, want %q", got, want)
			}
			return nil
		})
	}
	says("<nil>")
	in.Must("ip link set p1 down")
	says("interface p1 in namespace " + in.name + " is down: ip -n " + in.name + " link set p1 up")
	if out, err := exec.Command("ip", "-n", in.name, "link", "set", "p1", "up").CombinedOutput(); err != nil {
		t.Fatalf("the remedy: %v: %s", err, out)
	}
	says("<nil>")
	in.Must("ip link set p1 mtu 1300") // a cube without addresses follows, too
	netns.Eventually(t, patience, func() error {
		return d.lab.Do(func() error {
			outer, err := netdev.Get(shadow.OuterName("br1", "p1"))
			if err == nil && outer.MTU != 1300 {
				err = fmt.Errorf("the outer end has an MTU of %d", outer.MTU)
			}
			return err
		})
	})
}

// capture runs tcpdump, which listens when it returns; seen waits for what it prints.
func capture(t *testing.T, tcpdump *exec.Cmd) (seen func() string) {
	t.Helper()
	printed := make(chan string, 1)
	stderr := &lines{}
	tcpdump.Stderr = stderr
	go func() {
		out, err := tcpdump.Output()
		printed <- fmt.Sprint(string(out), err)
	}()
	netns.Eventually(t, patience, func() error {
		if !strings.Contains(stderr.String(), "listening on") {
			return errors.New("tcpdump does not listen")
		}
		return nil
	})
	return func() string { return <-printed }
}

func TestSpanShowsAllTrafficToTcpdump(t *testing.T) {
	t.Parallel()
	needs(t, "tcpdump")
	d := shadowMachine(t).Start()
	hosts := threeHosts(d.machine, v4)
	d.Must(http.StatusCreated, "POST", "/simplebridge/br1", `{"shadow":true,"span":true,"ports":[
		{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},{"name":"p3","peer":"veth3"}]}`)
	reaches(t, hosts[0], "10.0.0.2")
	in := d.inside("br1")
	for _, port := range []string{"p1", "p2"} {
		seen := capture(t, exec.Command("ip", "netns", "exec", in.name, "timeout", "20", "tcpdump", "-n", "-i", port, "-c", "4", "icmp"))
		for range 2 {
			if err := hosts[0].Ping("10.0.0.2"); err != nil {
				t.Fatal(err)
			}
		}
		got := seen()
		if strings.Count(got, "ICMP echo request") != 2 || strings.Count(got, "ICMP echo reply") != 2 {
			t.Errorf("on %s, tcpdump has seen %s", port, got)
		}
	}
	r := netns.OpenRaw(t, in, "p2")
	d.Do("br1 set span=false")
	in2, out := netns.OpenRaw(t, hosts[0], netns.Inner), netns.OpenRaw(t, hosts[1], netns.Inner)
	frame := pkt.EthernetFrame(hosts[1].MAC, hosts[0].MAC, streamType, make([]byte, 50))
	if err := in2.Send(frame); err != nil {
		t.Fatal(err)
	}
	sameFrame(t, out, "without span", frame)
	if got, err := r.Recv(isStream, 0); err == nil {
		t.Errorf("a copy without span: % x", got)
	}
}

func TestANamespaceOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	for _, r := range restarts {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			m := shadowMachine(t)
			d := m.Start()
			one, two, in := d.responds()
			in.reaches("10.0.1.2")
			reaches(t, two, "10.0.2.1")
			number := in.number()
			lives := exec.Command("ip", "netns", "exec", in.name, "sleep", "600")
			if err := lives.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = lives.Process.Kill() // it may have ended
				_ = lives.Wait()         // killed
			})
			r.end(d)
			in.reaches("10.0.1.2")
			if err := one.Ping("10.0.1.1"); err != nil {
				t.Error(err)
			}
			in.Must("ip addr del 10.0.1.1/24 dev p1")
			in.Must("ip addr add 10.0.1.3/24 dev p1")
			in.Must("ip link del p2")
			d = m.Start()
			if now := in.number(); now != number {
				t.Errorf("the namespace is another one: %d, before %d", now, number)
			}
			m.has("r1", "p1", "02:00:00:00:01:01", "10.0.1.3/24")
			reaches(t, one, "10.0.1.3")
			in.looks("p2", "02:00:00:00:02:01", "10.0.2.1/24")
			reaches(t, two, "10.0.2.1")
			d.Do("responder del r1")
			if left := m.namespaces(); len(left) > 0 {
				t.Errorf("namespaces %v of a deleted cube", left)
			}
		})
	}
}

func TestWhatSomebodyRemovesOfANamespaceComesBack(t *testing.T) {
	t.Parallel()
	d := shadowMachine(t).Start()
	one, _, in := d.responds()
	reaches(t, one, "10.0.1.1")
	number := in.number()
	back := func(what string) {
		t.Helper()
		netns.Eventually(t, patience, func() error {
			if _, err := in.Run("true"); err != nil {
				return fmt.Errorf("after %s: %w", what, err)
			}
			return nil
		})
		in.looks("p1", "02:00:00:00:01:01", "10.0.1.1/24")
		reaches(t, one, "10.0.1.1")
		in.reaches("10.0.1.2")
		if now := in.number(); now != number {
			t.Errorf("after %s, the namespace is another one", what)
		}
	}
	in.Must("ip link del p1")
	back("ip link del p1")
	d.lab.Run("ip", "link", "del", shadow.OuterName("r1", "p1"))
	back("the removal of the outer end")
	if out, err := exec.Command("ip", "netns", "del", in.name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	back("ip netns del")
	d.said("the name of a cube's namespace was removed")
	in.Must("ip link set p1 name other")
	netns.Eventually(t, patience, func() error {
		_, err := in.link("p1")
		return err
	})
	d.Alive()
}

func TestWhatAShadowCubeRefuses(t *testing.T) {
	t.Parallel()
	m := shadowMachine(t)
	d := m.Start()
	d.lab.Host("veth1", "")
	for _, c := range []struct{ what, method, path, body, words string }{
		{"XDP", "POST", "/responder/x1", `{"type":"XDP_DRV","shadow":true}`, "a shadow cube must be of type TC"},
		{"generic XDP", "POST", "/responder/x1", `{"type":"XDP_SKB","shadow":true}`, "a shadow cube must be of type TC"},
		{"span without shadow", "POST", "/responder/x1", `{"span":true}`, "span needs a shadow cube"},
	} {
		if status, text, err := d.Request(c.method, c.path, c.body); err != nil || status < 400 || status >= 500 || !strings.Contains(text, c.words) {
			t.Errorf("%s: status %d, %v, %s, want a refusal with %q", c.what, status, err, text, c.words)
		}
	}
	d.Must(http.StatusCreated, "POST", "/responder/r1", `{"shadow":true,"ports":[{"name":"p1"}]}`)
	d.Must(http.StatusCreated, "POST", "/responder/r2", `{"ports":[{"name":"p1"}]}`)
	for _, c := range []struct{ what, method, path, body, words string }{
		{"shadow later", "PATCH", "/responder/r2/shadow", `true`, "shadow"},
		{"an end as a peer", "POST", "/connect", `{"peer1":"r2:p1","peer2":"` + shadow.OuterName("r1", "p1") + `"}`, "leads into the namespace"},
		{"a port of the framework's", "POST", "/responder/r1/ports/ns_port_x", ``, "ns_port_"},
	} {
		if status, text, err := d.Request(c.method, c.path, c.body); err != nil || status < 400 || status >= 500 || !strings.Contains(text, c.words) {
			t.Errorf("%s: status %d, %v, %s, want a refusal with %q", c.what, status, err, text, c.words)
		}
	}
	d.inside("r1").Must("ip link add p9 type veth peer name x9")
	if status, text, err := d.Request("POST", "/responder/r1/ports/p9", ""); err != nil || status < 400 || status >= 500 || !strings.Contains(text, "is in use") {
		t.Errorf("a port whose interface somebody else has made: status %d, %v, %s", status, err, text)
	}
	strange := "pcn-" + m.instance + "@r3"
	if out, err := exec.Command("ip", "netns", "add", strange).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if status, text, err := d.Request("POST", "/responder/r3", `{"shadow":true}`); err != nil || status != http.StatusConflict && status != http.StatusBadRequest || !strings.Contains(text, "ip netns del") {
		t.Errorf("a namespace of somebody else's: status %d, %v, %s", status, err, text)
	}
	if _, err := os.Stat("/run/netns/" + strange); err != nil {
		t.Errorf("somebody else's namespace is gone: %v", err)
	}
	d.Must(http.StatusOK, "DELETE", "/responder/r1", "")
	if left := m.namespaces(); !slices.Equal(left, []string{strange}) {
		t.Errorf("namespaces %v, want %s alone", left, strange)
	}
}

func TestNamesThatNoInterfaceCanHave(t *testing.T) {
	t.Parallel()
	d := shadowMachine(t).Start()
	h := d.lab.Host("veth1", "10.0.1.2/24")
	cubes := []string{"a", "a-b", strings.Repeat("c", 64), "x..y+z", "0"}
	ports := []string{"b-c", "c", "lo", "all", strings.Repeat("p", 64), "p..", "1_2"}
	for _, c := range cubes {
		var list []map[string]any
		for _, p := range ports {
			list = append(list, map[string]any{"name": p})
		}
		list[2]["peer"], list[2]["ip"], list[2]["mac"] = "veth1", "10.0.1.1/24", "02:00:00:00:01:01"
		body, err := json.Marshal(map[string]any{"shadow": true, "ports": list})
		if err != nil {
			t.Fatal(err)
		}
		d.Must(http.StatusCreated, "POST", "/responder/"+c, string(body))
		in := d.inside(c)
		for _, p := range ports {
			if _, err := in.link(shadow.InnerName(p)); err != nil {
				t.Errorf("%s:%s: %v", c, p, err)
			}
		}
		in.reaches("10.0.1.2")
		reaches(t, h, "10.0.1.1")
		d.Do("disconnect " + c + ":lo veth1")
	}
	for _, c := range cubes {
		d.Must(http.StatusOK, "DELETE", "/responder/"+c, "")
	}
	if left := d.namespaces(); len(left) > 0 {
		t.Errorf("namespaces %v are left", left)
	}
}

func TestShadowCubesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	rounds := 60
	if soak {
		rounds = 1000
	}
	d := shadowMachine(t).Start()
	d.lab.Host("veth1", "")
	links := func() (n int) {
		d.lab.Must(func() error {
			list, err := netlink.LinkList()
			n = len(list)
			return err
		})
		return n
	}
	come := func(i int) {
		d.Must(http.StatusCreated, "POST", "/responder/r1", `{"shadow":true,"span":true,"ports":[{"name":"p1","peer":"veth1","ip":"10.0.0.1/24"},{"name":"p2"}]}`)
		d.Must(http.StatusCreated, "POST", "/responder/r1/ports/p3", `{"ip":"10.0.3.1/24"}`)
		if i%2 == 0 {
			d.Must(http.StatusNoContent, "DELETE", "/responder/r1/ports/p2", "")
		}
		d.Must(http.StatusOK, "DELETE", "/responder/r1", "")
	}
	for i := range rounds / 8 {
		come(i)
	}
	before, devices := d.settled(), links()
	for i := range rounds {
		come(i)
	}
	netns.Eventually(t, patience, func() error {
		after := d.Inventory()
		after.RSS = before.RSS
		if after != before || links() != devices || len(d.namespaces()) > 0 {
			return fmt.Errorf("after %d rounds the daemon holds %v, %d links, namespaces %v; before %v, %d links",
				rounds, after, links(), d.namespaces(), before, devices)
		}
		return nil
	})
}

// TestNothingIsLostWhileANamespaceChanges: a shadow bridge forwards while its span is switched, ports are added and
// removed, and somebody breaks its namespace.
func TestNothingIsLostWhileANamespaceChanges(t *testing.T) {
	t.Parallel()
	rounds := 5
	if soak {
		rounds *= 50
	}
	d := shadowMachine(t).Start()
	hosts := threeHosts(d.machine, v4)
	d.Must(http.StatusCreated, "POST", "/simplebridge/br1", `{"shadow":true,"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`)
	in := d.inside("br1")
	reaches(t, hosts[0], "10.0.0.2")
	s := startStream(t, hosts[0], hosts[1])
	for range rounds {
		d.Must(http.StatusOK, "PATCH", "/simplebridge/br1/span", `true`)
		s.Flowing(100)
		d.Must(http.StatusCreated, "POST", "/simplebridge/br1/ports/p3", `{"peer":"veth3"}`)
		in.Must("ip link del p1")
		netns.Eventually(t, patience, func() error {
			_, err := in.link("p1")
			return err
		})
		d.Must(http.StatusNoContent, "DELETE", "/simplebridge/br1/ports/p3", "")
		d.Must(http.StatusOK, "PATCH", "/simplebridge/br1/span", `false`)
		s.Flowing(100)
	}
	s.Stop()
	if got := d.Stats("br1").Fate(t, "namespace"); got != 0 {
		t.Errorf("%d packets of a bridge given to its namespace", got)
	}
}

// TestANamespaceInTheWayBreaksOneCube: a conflict with one cube's namespace when the daemon starts does not affect the
// others.
func TestANamespaceInTheWayBreaksOneCube(t *testing.T) {
	t.Parallel()
	m := shadowMachine(t)
	d := m.Start()
	one, _, in := d.responds()
	d.Must(http.StatusCreated, "POST", "/responder/r2", `{"shadow":true,"ports":[{"name":"p1"}]}`)
	reaches(t, one, "10.0.1.1")
	d.Kill9()
	ip := func(words ...string) {
		t.Helper()
		if out, err := exec.Command("ip", append([]string{"netns"}, words...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip netns %v: %v: %s", words, err, out)
		}
	}
	strange := m.inside("r2").name
	ip("del", strange)
	ip("add", strange)
	d = m.Start()
	d.said("was not created by polycubed")
	reaches(t, one, "10.0.1.1")
	in.reaches("10.0.1.2")
	d.Must(http.StatusOK, "DELETE", "/responder/r2", "")
	if left := m.namespaces(); !slices.Contains(left, strange) || len(left) != 2 {
		t.Errorf("namespaces %v, want r1's and somebody else's", left)
	}
	ip("del", strange)
	d.Must(http.StatusCreated, "POST", "/responder/r2", `{"shadow":true,"ports":[{"name":"p1"}]}`)
}

func TestCleanupRemovesNamespaces(t *testing.T) {
	t.Parallel()
	m := shadowMachine(t)
	d := m.Start()
	d.responds()
	d.Kill9()
	if len(m.namespaces()) != 1 {
		t.Fatalf("namespaces %v, want one", m.namespaces())
	}
	if r := m.Polycubed("cleanup"); r.code != 0 {
		t.Fatal(r)
	}
	if left := m.namespaces(); len(left) > 0 {
		t.Errorf("after cleanup there are namespaces %v", left)
	}
}
