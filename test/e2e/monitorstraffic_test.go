// SPDX-License-Identifier: Apache-2.0

// Connections of the kernel through the monitors of TCP, and the dashboard that shows all monitors.

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// relay forwards frames between two devices of the lab, each after a delay, and drops those that drop chooses.
func relay(t *testing.T, d *daemon, delay time.Duration, drop func(frame []byte) bool) {
	t.Helper()
	ends := []*netns.Raw{netns.OpenRaw(t, d.lab, "veth1"), netns.OpenRaw(t, d.lab, "veth2")}
	type late struct {
		at    time.Time
		frame []byte
	}
	done := make(chan struct{})
	ended := make(chan struct{}, 4)
	for i, from := range ends {
		to, line := ends[1-i], make(chan late, 1<<14)
		go func() {
			defer func() { close(line); ended <- struct{}{} }()
			for {
				select {
				case <-done:
					return
				default:
				}
				frame, err := from.Recv(nil, 20*time.Millisecond)
				if err == nil && !drop(frame) {
					line <- late{time.Now().Add(delay), frame}
				}
			}
		}()
		go func() {
			defer func() { ended <- struct{}{} }()
			for f := range line {
				<-time.After(time.Until(f.at))
				_ = to.Send(f.frame) // the host may be gone
			}
		}()
	}
	t.Cleanup(func() {
		close(done)
		for range 4 {
			<-ended
		}
	})
}

// path are two hosts with a relay between them, whose first end a monitor watches.
func path(t *testing.T, name string, delay time.Duration, drop func(frame []byte) bool) (d *daemon, a, b *netns.Node) {
	t.Helper()
	needClang(t)
	d = start(t)
	a = d.lab.Host("veth1", "10.0.0.1/24", netns.WithoutTxChecksum())
	b = d.lab.Host("veth2", "10.0.0.2/24", netns.WithoutTxChecksum())
	must(t, d.inject("m1", "veth1", monitor(name)))
	relay(t, d, delay, drop)
	return d, a, b
}

// talk opens a connection from a to b, and exchanges lines; then it returns what the kernel knows about the connection.
func talk(t *testing.T, a, b *netns.Namespace, lines int) *unix.TCPInfo {
	t.Helper()
	b.AnswerLines("10.0.0.2:80", func(_ net.Addr, line string) string { return line })
	var conn net.Conn
	a.Must(func() (err error) { conn, err = net.DialTimeout("tcp", "10.0.0.2:80", patience); return err })
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for i := range lines {
		want := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(conn, want); err != nil {
			t.Fatal(err)
		}
		if got, err := in.ReadString('\n'); err != nil || got != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	if controlErr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
	return info
}

// histogram is one of several CPUs, in nanoseconds.
func (d *daemon) histogram(t *testing.T, which, name string) (count [32]uint64, all, sum uint64) {
	t.Helper()
	var got map[string][]struct {
		Value [][]struct {
			Count [32]uint64
			Sum   uint64
		}
	}
	if err := json.Unmarshal([]byte(must(t, d.extract("m1", "-t", which, "-n", name))), &got); err != nil {
		t.Fatal(err)
	}
	for _, cpu := range got[which+"-metrics"][0].Value[0] {
		sum += cpu.Sum
		for i, n := range cpu.Count {
			count[i] += n
			all += n
		}
	}
	return count, all, sum
}

// TestRoundTripsOfRealConnections: the times are those of the path, as the kernel measures them at its end.
func TestRoundTripsOfRealConnections(t *testing.T) {
	t.Parallel()
	const delay, lines = 20 * time.Millisecond, 20
	d, a, b := path(t, "tcp-rtt", delay, func([]byte) bool { return false })
	info := talk(t, a.Namespace, b.Namespace, lines)
	count, all, sum := d.histogram(t, "egress", "tcp_round_trip_seconds")
	if all < lines+1 {
		t.Errorf("%d times, want that of the handshake and of each line, %d", all, lines+1)
	}
	for i, n := range count {
		if n > 0 && time.Duration(1)<<i <= 2*delay {
			t.Errorf("%d times are below %v, but there and back takes %v", n, time.Duration(1)<<i, 2*delay)
		}
	}
	// The kernel's figure is smoothed, and of a busy machine.
	mean, kernel := time.Duration(sum/all), time.Duration(info.Rtt)*time.Microsecond
	if ratio := float64(mean) / float64(kernel); math.Abs(math.Log2(ratio)) > 1 {
		t.Errorf("the mean is %v, the kernel has measured %v", mean, kernel)
	}
	// The other way there is only a host, which acknowledges with its next line.
	_, near, _ := d.histogram(t, "ingress", "tcp_round_trip_seconds")
	if near == 0 {
		t.Error("nothing is measured on ingress")
	}
}

// TestRetransmissionsOfRealConnections: what is dropped after the monitor is sent again, which it counts as the kernel does.
func TestRetransmissionsOfRealConnections(t *testing.T) {
	t.Parallel()
	dropped := map[string]bool{}
	d, a, b := path(t, "tcp-retransmissions", 0, func(frame []byte) bool {
		for _, line := range []string{"line 3\n", "line 7\n"} {
			if bytes.HasSuffix(frame, []byte(line)) && frame[26+3] == 1 && !dropped[line] { // from 10.0.0.1
				dropped[line] = true
				return true
			}
		}
		return false
	})
	info := talk(t, a.Namespace, b.Namespace, 10)
	var got map[string][]struct{ Value [][]map[string]uint64 }
	if err := json.Unmarshal([]byte(must(t, d.extract("m1", "-t", "ingress", "-n", "tcp_traffic"))), &got); err != nil {
		t.Fatal(err)
	}
	sums := map[string]uint64{}
	for _, cpu := range got["ingress-metrics"][0].Value[0] {
		for k, v := range cpu {
			sums[k] += v
		}
	}
	if n := sums["retransmitted_segments"]; n < 2 || n != uint64(info.Total_retrans) || sums["retransmitted_bytes"] != 7*n {
		t.Errorf("%v, the kernel has sent %d segments again", sums, info.Total_retrans)
	}
	if _, all, _ := d.histogram(t, "ingress", "tcp_retransmission_delay_seconds"); all != sums["retransmitted_segments"] {
		t.Errorf("%d delays", all)
	}
}

// TestMonitorsOnTheirDashboard: each query of the dashboard of monitors, and each alert rule, has a result on the series of all
// monitors, which watch one device together.
func TestMonitorsOnTheirDashboard(t *testing.T) {
	t.Parallel()
	needClang(t)
	_, _ = promtool(t, "--version")
	d := start(t)
	host := d.lab.Host("veth1", "10.0.0.1/24")
	d.lab.Run("ip", "addr", "add", "10.0.0.2/24", "dev", "veth1")
	folders, err := filepath.Glob(filepath.Join(monitors, "*/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range folders {
		name := filepath.Base(filepath.Dir(file))
		must(t, d.inject(name, "veth1", file))
		names = append(names, name)
	}
	talk(t, host.Namespace, d.lab.Namespace, 3)
	out := netns.OpenRaw(t, host, netns.Inner)
	mac := host.OuterMAC.String()
	question := []byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x00\x00\x01\x00\x01")
	hello := slices.Concat([]byte{22, 3, 1, 0, 62, 1, 0, 0, 58, 3, 3}, make([]byte, 32), []byte{0, 0, 2, 0x13, 1, 1, 0, 0, 15, 0, 0, 0, 11, 0, 9, 0, 0, 6, 'a', '.', 't', 'e', 's', 't'})
	for _, frame := range []*pkt.Frame{
		pkt.Eth(host.MAC.String(), mac).IPv4("10.0.0.1", "10.0.0.2").UDP(4000, 53).Data(question),
		pkt.Eth(host.MAC.String(), mac).IPv4("10.0.0.2", "10.0.0.1").UDP(53, 4000).Data(append([]byte{0, 7, 0x81, 3}, question[4:]...)),
		pkt.Eth(host.MAC.String(), mac).IPv4("10.0.0.1", "10.0.0.2").TCP(4000, 443, pkt.TCPFlags{ACK: true, Seq: 7}).Data(hello),
		pkt.Eth(host.MAC.String(), mac).IPv4("10.0.0.1", "10.0.0.2").TCP(4000, 443, pkt.TCPFlags{ACK: true, Seq: 7}).Data(hello),
	} {
		if err := out.Send(frame.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	netns.Eventually(t, patience, func() error {
		if n := total(t, must(t, d.extract("dns", "--format", "prometheus")), "dns_responses_total"); n != 1 {
			return fmt.Errorf("%v responses", n)
		}
		return nil
	})
	var series []string
	for _, name := range names {
		text := must(t, d.extract(name, "--format", "prometheus"))
		parser := expfmt.NewTextParser(model.LegacyValidation)
		if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
			t.Errorf("%s: %v:\n%s", name, err, text)
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				series = append(series, line)
			}
		}
	}
	showing(t, series, queries(t, func(file string) bool { return file == "monitors.json" }))
	there := map[string]bool{}
	for _, line := range series {
		there[family.FindStringSubmatch(line)[1]] = true
	}
	for _, group := range rules(t)["monitors-alerts.yml"].Groups {
		for _, alert := range group.Rules {
			for _, name := range metricsIn(alert.Expr) {
				if !there[name] {
					t.Errorf("%s: no metric %s", alert.Alert, name)
				}
			}
		}
	}
}
