// SPDX-License-Identifier: Apache-2.0

// A complete service in Python: an executable that the daemon starts and confines, with its fast path in the kernel and
// real TCP that is accepted only after the right knocks.

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/executable"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// installed is a directory where only root writes, as services need one.
func installed(t testing.TB) string {
	t.Helper()
	netns.NeedRoot(t)
	dir, err := os.MkdirTemp("/var/lib", "polycube-e2e-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// pythonService creates a virtual environment with the contents of .cache/python, and returns the program of a service
// in it.
func pythonService(t testing.TB, script string) string {
	t.Helper()
	built, err := filepath.Abs("../../.cache/python")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob(filepath.Join(built, "lib/python3*/site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("no Python packages in %s: %v (run make python)", built, err)
	}
	dir := filepath.Join(installed(t), "venv")
	own := filepath.Join(dir, "lib", filepath.Base(filepath.Dir(packages[0])))
	for _, cmd := range [][]string{
		{"/usr/bin/python3", "-m", "venv", "--without-pip", dir},
		{"rm", "-rf", filepath.Join(own, "site-packages")},
		{"cp", "-R", packages[0], own},
	} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", cmd, err, out)
		}
	}
	text, err := os.ReadFile(filepath.Join(built, "bin", script))
	if err != nil {
		t.Fatalf("%v (run make python)", err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	path := filepath.Join(dir, "bin", script)
	if err := executable.Write(path, []byte("#!"+filepath.Join(dir, "bin/python3")+"\n"+rest)); err != nil {
		t.Fatal(err)
	}
	return path
}

// serviceState is the state of an external service.
type serviceState struct {
	Status   string
	Restarts int
	Error    string
}

func (m *machine) serviceState(name string) serviceState {
	m.t.Helper()
	var states []serviceState
	m.Get("/services/"+name, &states)
	if len(states) != 1 {
		m.t.Fatalf("%d services are named %s", len(states), name)
	}
	return states[0]
}

// runs are the processes of this machine's daemon that run a program.
func (d *daemon) runs(path string) (pids []int) {
	d.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, dir := range all {
		words, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		status, statusErr := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil || statusErr != nil || !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", d.cmd.Process.Pid)) {
			continue
		}
		// A script is known to its interpreter by its descriptor.
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && strings.HasPrefix(string(words), filepath.Dir(path)) {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		d.t.Fatalf("the daemon runs no %s", path)
	}
	return pids
}

// knocker is a host before a port that knocking opens.
type knocker struct {
	*daemon
	t      *testing.T
	host   *netns.Node
	script string
}

const (
	shutPort   = "10.0.0.254:2222"
	serverHost = "10.0.0.254"
)

// listen serves the port, with a greeting.
func (k *knocker) listen() {
	k.t.Helper()
	var server net.Listener
	k.lab.Must(func() (err error) { server, err = net.Listen("tcp", shutPort); return err })
	k.t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("hello")) // clients that left again do not matter
			_ = conn.Close()
		}
	}()
}

// comesIn tries to connect once.
func (k *knocker) comesIn(within time.Duration) error {
	return k.host.Do(func() error {
		conn, err := net.DialTimeout("tcp", shutPort, within)
		if err != nil {
			return err
		}
		defer conn.Close()
		text := make([]byte, 5)
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err = conn.Read(text); err == nil && string(text) != "hello" {
			err = fmt.Errorf("got %q", text)
		}
		return err
	})
}

func (k *knocker) knock(ports ...int) {
	k.t.Helper()
	k.host.Must(func() error {
		for _, port := range ports {
			conn, err := net.Dial("udp", net.JoinHostPort(serverHost, strconv.Itoa(port)))
			if err != nil {
				return err
			}
			_, err = conn.Write([]byte("knock"))
			if err := errors.Join(err, conn.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// clients are the admitted clients according to the cube.
func (k *knocker) clients() (in []string) {
	k.t.Helper()
	var state struct {
		Client []struct{ Address, Since string } `json:"client"`
	}
	k.Get("/portknock/k1/clients", &state)
	for _, c := range state.Client {
		if _, err := time.Parse(time.RFC3339, c.Since); err != nil {
			k.t.Errorf("%s is in since %q: %v", c.Address, c.Since, err)
		}
		in = append(in, c.Address)
	}
	return in
}

// isIn waits until the client that knocked is admitted, and connects.
func (k *knocker) isIn(when string) {
	k.t.Helper()
	netns.Eventually(k.t, patience, func() error {
		if in := k.clients(); !slices.Equal(in, []string{"10.0.0.1"}) {
			return fmt.Errorf("%s: in are %v", when, in)
		}
		return nil
	})
	if err := k.comesIn(patience); err != nil {
		k.t.Errorf("%s: %v", when, err)
	}
}

// isOut reports whether segments to the port are dropped.
func (k *knocker) isOut(when string) {
	k.t.Helper()
	before := k.Stats("k1").Fate(k.t, "closed")
	if err := k.comesIn(400 * time.Millisecond); err == nil {
		k.t.Errorf("%s: it comes in", when)
	}
	if after := k.Stats("k1").Fate(k.t, "closed"); after == before {
		k.t.Errorf("%s: nothing was dropped as closed", when)
	}
}

func TestPortKnocking(t *testing.T) {
	t.Parallel()
	path := pythonService(t, "polycube-portknock")
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			k := &knocker{t: t, host: m.lab.Host("veth1", "10.0.0.1/24"), script: path}
			m.lab.Run("ip", "addr", "add", serverHost+"/24", "dev", "veth1")
			k.daemon = m.Start()
			k.listen()
			k.Do("services add type=lib uri=" + path + " name=portknock")
			k.Do("portknock add k1 port=2222 type=" + kind)
			for _, port := range []string{"7001", "8002", "9003"} {
				k.Do("k1 knock add " + port)
			}
			if err := k.comesIn(patience); err != nil {
				t.Fatalf("before: %v", err)
			}
			k.Do("attach k1 veth1")
			k.isOut("nobody knocked")
			k.cannotHide()
			reaches(t, k.host, serverHost)
			k.knock(7001, 9003, 8002)
			k.isOut("the order was wrong")
			k.knock(7001, 8002, 9003)
			k.isIn("knocked")
			k.survives()
			if out := k.Do("k1 clients close address=10.0.0.1"); !strings.Contains(out, "1") {
				t.Errorf("closing says %s", out)
			}
			k.isOut("closed")
			k.idles()
			if r := k.CLI("services", "del", "portknock"); r.code == 0 || !strings.Contains(r.stderr, "k1") {
				t.Errorf("deleting a service with a cube: %s", r)
			}
			k.Do("del k1")
			if err := k.comesIn(patience); err != nil {
				t.Errorf("after the cube: %v", err)
			}
			k.Do("services del portknock")
		})
	}
}

// cannotHide sends segments to the port behind other headers: all are dropped, those that cannot be read as well.
func (k *knocker) cannotHide() {
	k.t.Helper()
	const from, to = "fd00::1", "fd00::254"
	segment := pkt.TCPSegment(from, to, 1000, 2222, 0x02, nil)
	behind := func(extensions int) []byte {
		headers := []byte{}
		for i := range extensions {
			headers = append(headers, pkt.IPv6Extension(map[bool]byte{true: pkt.ProtoTCP, false: 60}[i == extensions-1])...)
		}
		return pkt.IPv6Header{From: from, To: to, Next: 60, HopLimit: 64}.Packet(append(headers, segment...))
	}
	plain := pkt.IPv4Header{From: "10.0.0.1", To: serverHost, Protocol: pkt.ProtoTCP, TTL: 64}.Packet(segment)
	before := k.Stats("k1")
	wire := netns.OpenRaw(k.t, k.host, netns.Inner)
	want := map[string]uint64{}
	for _, c := range []struct {
		fate  string
		frame []byte
	}{
		{"closed", pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").VLAN(5).IP(plain).Bytes()},
		{"closed", pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").IP(behind(3)).Bytes()},
		{"unreadable", pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").IP(behind(12)).Bytes()},
		{"unreadable", pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").IP(plain[:30]).Bytes()},
		{"unreadable", pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").IP(plain[:15]).Bytes()},
	} {
		if err := wire.Send(c.frame); err != nil {
			k.t.Fatal(err)
		}
		want[c.fate]++
	}
	netns.Eventually(k.t, patience, func() error {
		now := k.Stats("k1")
		for fate, n := range want {
			if got := now.Fate(k.t, fate) - before.Fate(k.t, fate); got != n {
				return fmt.Errorf("%d segments are %s, want %d", got, fate, n)
			}
		}
		return nil
	})
}

// survives kills the service: admitted clients stay admitted, others do not, and it restarts with the list.
func (k *knocker) survives() {
	k.t.Helper()
	before := k.serviceState("portknock")
	for _, pid := range k.runs(k.script) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			k.t.Fatal(err)
		}
	}
	for range 20 {
		if err := k.comesIn(patience); err != nil {
			k.t.Errorf("while the service is away: %v", err)
		}
	}
	netns.Eventually(k.t, patience, func() error {
		if now := k.serviceState("portknock"); now.Status != "running" || now.Restarts == before.Restarts {
			return fmt.Errorf("the service is %+v, was %+v", now, before)
		}
		return nil
	})
	k.isIn("the service came back")
}

// idles waits until the port shuts on its own.
func (k *knocker) idles() {
	k.t.Helper()
	k.knock(7001, 8002, 9003)
	k.isIn("knocked again")
	k.Do("k1 set idle-timeout=1")
	netns.Eventually(k.t, patience, func() error {
		if in := k.clients(); len(in) > 0 {
			return fmt.Errorf("in are %v", in)
		}
		return nil
	})
	k.isOut("idle")
	status, text, err := k.Request(http.MethodPost, "/portknock/k1/knock/2222", "")
	if err != nil || status < 400 || !strings.Contains(text, "cannot be knocked at") {
		k.t.Errorf("knocking at the port itself: %d, %v: %s", status, err, text)
	}
}
