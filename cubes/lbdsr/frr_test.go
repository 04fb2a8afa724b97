// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Virtual addresses that FRR in the load balancer's namespace announces to a router with FRR, over BGP, while they have a
// live server.

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// frrDir is where distributions install the FRR daemons.
const frrDir = "/usr/lib/frr"

// frr are daemons of FRR in a namespace.
type frr struct {
	t   *testing.T
	dir string
	in  func(name string, args ...string) *exec.Cmd
}

// startFRR starts zebra and bgpd.
func startFRR(t *testing.T, in func(name string, args ...string) *exec.Cmd, bgp string) *frr {
	t.Helper()
	dir, err := os.MkdirTemp("", "frr") // the test's own are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	f := &frr{t, dir, in}
	f.own(dir)
	f.start("zebra", "hostname test\n")
	netns.Eventually(t, bpftest.Patience, func() error {
		_, err := os.Stat(filepath.Join(dir, "zserv.api"))
		return err
	})
	f.start("bgpd", bgp, "-p", "179")
	return f
}

// own gives a file to the user that the daemons run as.
func (f *frr) own(name string) {
	f.t.Helper()
	u, err := user.Lookup("frr")
	if err != nil {
		f.t.Fatal(err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err == nil {
		err = os.Chown(name, uid, -1)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *frr) start(daemon, conf string, more ...string) {
	f.t.Helper()
	file := filepath.Join(f.dir, daemon+".conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil { // for another user
		f.t.Fatal(err)
	}
	f.own(file)
	out, err := os.Create(filepath.Join(f.dir, daemon+".log"))
	if err != nil {
		f.t.Fatal(err)
	}
	args := append([]string{"-f", file, "-i", filepath.Join(f.dir, daemon+".pid"), "-z", filepath.Join(f.dir, "zserv.api"),
		"--vty_socket", f.dir, "-A", "127.0.0.1", "-P", "0", "--log", "stdout"}, more...)
	cmd := f.in(filepath.Join(frrDir, daemon), args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by the signal
		_ = out.Close()
		if f.t.Failed() {
			log, _ := os.ReadFile(out.Name())
			f.t.Logf("%s:\n%s", daemon, log)
		}
	})
}

// learns waits until bgpd has, or has not, routes to addresses, and returns how long that took.
func (f *frr) learns(command, text string, want bool) time.Duration {
	f.t.Helper()
	start := time.Now()
	netns.Eventually(f.t, pace.Stretch(time.Minute), func() error {
		out, _ := exec.Command("vtysh", "--vty_socket", f.dir, "-d", "bgpd", "-c", command).CombinedOutput()
		if strings.Contains(string(out), text) != want {
			return fmt.Errorf("%s: %s, want %s: %v", command, out, text, want)
		}
		return nil
	})
	return time.Since(start)
}

// bgp is the configuration of a speaker.
func bgp(as int, neighbour, redistribute string) string {
	return fmt.Sprintf("router bgp %d\n bgp router-id 192.0.2.%d\n no bgp ebgp-requires-policy\n timers bgp 1 3\n"+
		" neighbor %s remote-as external\n neighbor %[3]s timers connect 1\n neighbor %[3]s advertisement-interval 0\n"+
		" address-family ipv4 unicast\n %s\n exit-address-family\n address-family ipv6 unicast\n  neighbor %[3]s activate\n %[4]s\n exit-address-family\n",
		as, as, neighbour, redistribute)
}

func TestFRRAnnouncesAddressesWithALiveServer(t *testing.T) {
	netns.NeedRoot(t)
	if _, err := os.Stat(filepath.Join(frrDir, "bgpd")); err != nil {
		t.Skipf("FRR is not installed: apt-get install frr: %v", err)
	}
	t.Parallel()
	o := live
	o.Shadow, o.Follow = true, true
	l := bpftest.New(t, o)
	w := newWeb(t, l, 2)
	router := l.Hosts[0]
	router.Run("ip", "address", "add", "10.0.1.2/24", "dev", "eth0")
	router.Run("ip", "address", "add", "2001:db8:1::2/64", "dev", "eth0", "nodad")
	const ports = `"ports":[{"name":"f","type":"FRONTEND","peer":"veth1","ip":"10.0.1.1/24","ip6":"2001:db8:1::1/64"},{"name":"b","type":"BACKEND","peer":"veth2","ip":"10.0.2.1/24","ip6":"2001:db8:2::1/64"}]`
	const check = `"health-check":{` + quick + `"type":"HTTP"}`
	l.Create("lbdsr", "lb", `{"shadow":true,`+ports+`,"service":[
 {"vip":"`+webVIP+`","vport":80,"proto":"TCP","announce":true,`+check+`,"server":[{"address":"10.0.2.11"}]},
 {"vip":"`+webVIP6+`","vport":80,"proto":"TCP","announce":true,`+check+`,"server":[{"address":"2001:db8:2::11"}]},
 {"vip":"10.0.0.109","vport":80,"proto":"TCP","server":[{"address":"10.0.2.11"}]}]}`)
	startFRR(t, func(name string, args ...string) *exec.Cmd { return l.Within("lb", name, args...) }, bgp(1, "10.0.1.2", " redistribute kernel"))
	peer := startFRR(t, router.Command, bgp(2, "10.0.1.1", ""))
	const routes, routes6 = "show bgp ipv4 unicast", "show bgp ipv6 unicast"
	peer.learns(routes, webVIP+"/32", true)
	peer.learns(routes6, webVIP6+"/128", true)
	peer.learns(routes, "10.0.0.109", false) // not to be announced

	w.stop()
	t.Logf("withdrawn %v after the server stopped; checks: every 100 ms, down after 2 failures", peer.learns(routes, webVIP+"/32", false))
	peer.learns(routes6, webVIP6+"/128", false)
	w.start(t)
	t.Logf("announced %v after the server was back", peer.learns(routes, webVIP+"/32", true))

	if out, err := l.Within("lb", "ip", "route", "flush", "proto", "80").CombinedOutput(); err != nil { // by mistake
		t.Fatalf("%v, %s", err, out)
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		out, err := l.Within("lb", "ip", "route", "show", "proto", "80").CombinedOutput()
		if err != nil || !strings.Contains(string(out), webVIP) {
			return fmt.Errorf("the namespace has %s: %w", out, err)
		}
		return nil
	})
	l.Restart(func() {
		out, err := l.Within("lb", "ip", "route", "show", "proto", "80").CombinedOutput()
		if err != nil || !strings.Contains(string(out), webVIP) {
			t.Errorf("while the daemon is down, the namespace has %s, %v", out, err)
		}
	})
	peer.learns(routes, webVIP+"/32", true)
	l.Set("PATCH", "lb service "+webVIP+" 80 TCP announce", "false")
	peer.learns(routes, webVIP+"/32", false)
	l.Set("PATCH", "lb service "+webVIP+" 80 TCP announce", "true")
	peer.learns(routes, webVIP+"/32", true)
	l.Set("DELETE", "lb service "+webVIP+" 80 TCP", "")
	peer.learns(routes, webVIP+"/32", false)
}
