// SPDX-License-Identifier: Apache-2.0

package feedback

// Real agents: snmpd of net-snmp, on loopback.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/polycube/polycube/test/pace"
)

// patience is how long tests wait.
var patience = pace.Stretch(20 * time.Second)

// snmpd starts an agent with a configuration.
func snmpd(t *testing.T, lines ...string) netip.AddrPort {
	t.Helper()
	program, err := exec.LookPath("snmpd")
	if err != nil {
		t.Skip("snmpd is not installed: scripts/deps.sh build")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "snmpd.conf")
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := freePort(t)
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-f", "-LE", "3", "-C", "-c", conf, "-I", "-smux", "udp:"+at.String())
	cmd.Env = append(os.Environ(), "SNMP_PERSISTENT_DIR="+dir, "MIBS=")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return at
}

// freePort returns a port of UDP on loopback that nothing uses.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// answers polls until an agent answers.
func answers(t *testing.T, c collector) Reading {
	t.Helper()
	for until := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		r, err := c.poll(ctx)
		cancel()
		if err == nil {
			return r
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

func TestSNMPReadsARealAgent(t *testing.T) {
	at := snmpd(t, "rocommunity house 127.0.0.1", "override .1.3.6.1.4.1.2021.10.1.5.1 integer 150",
		"override .1.3.6.1.4.1.2021.11.67.0 integer 3",
		"override .1.3.6.1.4.1.2021.4.5.0 integer 1000", "override .1.3.6.1.4.1.2021.4.6.0 integer 100",
		"override .1.3.6.1.4.1.2021.4.14.0 integer 50", "override .1.3.6.1.4.1.2021.4.15.0 integer 100")
	for _, tt := range []struct {
		ratios Ratios
		want   float64
	}{
		{Ratios{Load: 1}, 0.5}, // 1.5 processes on 3 CPUs
		{Ratios{Memory: 1}, 0.75},
		{Ratios{Load: 60, Memory: 20}, 0.5625},
	} {
		s := &snmp{at: at, conf: SNMPConfig{Community: "house"}, ratios: tt.ratios, full: 1000}
		if r := answers(t, s); r.Load != tt.want || r.Pending {
			t.Errorf("%+v: %+v, want %v", tt.ratios, r, tt.want)
		}
	}
	all := &snmp{at: at, conf: SNMPConfig{Community: "house"}, ratios: Ratios{Processes: 1}, full: 1000000}
	if r := answers(t, all); r.Load <= 0 || r.Load > 0.1 { // this machine runs the test, and fewer than 100,000 processes
		t.Errorf("the load by processes is %v", r.Load)
	}
	cpu := &snmp{at: at, conf: SNMPConfig{Community: "house"}, ratios: Ratios{CPU: 1}}
	if r := answers(t, cpu); !r.Pending {
		t.Errorf("the first poll of counters has the load %v", r.Load)
	}
	for until := time.Now().Add(patience); ; { // snmpd has new counters every few seconds
		if r := answers(t, cpu); !r.Pending {
			if r.Load < 0 || r.Load > 1 || cpu.cpu != r.Load {
				t.Errorf("the load of the CPU is %v", r.Load)
			}
			break
		}
		if time.Now().After(until) {
			t.Fatal("the CPU has no load")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	wrong := &snmp{at: at, conf: SNMPConfig{Community: "other"}, ratios: Ratios{Load: 1}}
	if _, err := wrong.poll(ctx); err == nil || err.Error() != "no answer in time" {
		t.Errorf("with a wrong community: %v", err)
	}
}

func TestSNMPv3WithSecretsFromAFile(t *testing.T) {
	at := snmpd(t, `createUser polycube SHA-256 "correct horse" AES "battery staple"`, "rouser polycube authPriv",
		"override .1.3.6.1.4.1.2021.10.1.5.1 integer 40", "override .1.3.6.1.4.1.2021.11.67.0 integer 1")
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good", "# of the shop\nauth correct horse\npriv battery staple\n")
	write("bad", "auth wrong horses\npriv battery staple\n")
	write("short", "auth short\npriv battery staple\n")
	conf := SNMPConfig{Version: V3, User: "polycube", Auth: SHA256, Priv: AES, Credentials: "good"}
	s := &snmp{at: at, conf: conf, ratios: Ratios{Load: 1}, secrets: dir}
	if r := answers(t, s); r.Load != 0.4 {
		t.Errorf("%+v", r)
	}
	for name, want := range map[string]string{
		"bad": "SNMP: ", "short": "no line `auth` with at least 8 characters", "none": "no such file", "../good": "not the name of a file",
	} {
		s.conf.Credentials = name
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := s.poll(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "no answer") {
			t.Errorf("credentials %s: %v, want %q", name, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "horse") {
			t.Errorf("credentials %s: the error has the secret: %v", name, err)
		}
	}
}

// hostile is an agent that answers each request with what a function makes of the right answer.
func hostile(t *testing.T, answer func(request []byte) []byte) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buffer := make([]byte, 65535)
		for {
			n, from, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(answer(buffer[:n]), from)
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// says answers a request with the values of objects.
func says(t *testing.T, of map[string]gosnmp.SnmpPDU) func([]byte) []byte {
	return func(request []byte) []byte {
		decoder := gosnmp.GoSNMP{Version: gosnmp.Version2c, Community: "public"}
		packet, err := decoder.SnmpDecodePacket(request)
		if err != nil {
			t.Errorf("decode a request: %v", err)
			return nil
		}
		packet.PDUType = gosnmp.GetResponse
		for i := range packet.Variables {
			v := &packet.Variables[i]
			if is, ok := of[v.Name]; ok {
				v.Type, v.Value = is.Type, is.Value
				if is.Name != "" {
					v.Name = is.Name
				}
			} else {
				v.Type, v.Value = gosnmp.NoSuchObject, nil
			}
		}
		out, err := packet.MarshalMsg()
		if err != nil {
			t.Errorf("encode an answer: %v", err)
		}
		return out
	}
}

func TestHostileAgentsOfSNMP(t *testing.T) {
	number := func(n int) gosnmp.SnmpPDU { return gosnmp.SnmpPDU{Type: gosnmp.Integer, Value: n} }
	for name, tt := range map[string]struct {
		answer func([]byte) []byte
		ratios Ratios
		want   string
	}{
		"nothing":       {says(t, nil), Ratios{Memory: 1}, "no memTotalReal"},
		"no laLoad":     {says(t, map[string]gosnmp.SnmpPDU{cpuNumber: number(1)}), Ratios{Load: 1}, "no laLoad"},
		"no processes":  {says(t, nil), Ratios{Processes: 1}, "no hrSystemProcesses"},
		"no CPU":        {says(t, nil), Ratios{CPU: 1}, "neither ssCpuRawIdle nor hrProcessorLoad"},
		"negative":      {says(t, map[string]gosnmp.SnmpPDU{load1: number(-5), cpuNumber: number(1)}), Ratios{Load: 1}, "is no number"},
		"text":          {says(t, map[string]gosnmp.SnmpPDU{load1: {Type: gosnmp.OctetString, Value: "much"}}), Ratios{Load: 1}, "is no number"},
		"other object":  {says(t, map[string]gosnmp.SnmpPDU{load1: {Name: memTotal, Type: gosnmp.Integer, Value: 1}}), Ratios{Load: 1}, "was not asked for"},
		"no memory":     {says(t, map[string]gosnmp.SnmpPDU{memTotal: number(0), memFree: number(1)}), Ratios{Memory: 1}, "no memTotalReal"},
		"its own words": {func(b []byte) []byte { return b }, Ratios{Load: 1}, ""},
		"half":          {func(b []byte) []byte { return b[:len(b)/2] }, Ratios{Load: 1}, ""},
		"zeros":         {func(b []byte) []byte { return make([]byte, 60000) }, Ratios{Load: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &snmp{at: hostile(t, tt.answer), conf: SNMPConfig{Community: "public"}, ratios: tt.ratios}
			start := time.Now()
			is := &polled[int]{ask: s, target: Endpoint{conf: Config{Timeout: 500}}}
			r, err := pollSafely(context.Background(), is)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v, want %q", r, err, tt.want)
			}
			if took := time.Since(start); took > patience {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestProcessorsWithoutCounters: agents that have only HOST-RESOURCES-MIB.
func TestProcessorsWithoutCounters(t *testing.T) {
	for _, tt := range []struct {
		percents []int
		want     string
	}{
		{[]int{20, 60}, "0.40"},
		{make([]int, 100), "0.00"},
		{make([]int, 2000), "the agent has more than 1024 processors"},
		{[]int{101}, "the agent's hrProcessorLoad is no percentage"},
		{nil, "the agent has neither ssCpuRawIdle nor hrProcessorLoad: set ratios cpu=0"},
	} {
		at := hostile(t, func(request []byte) []byte {
			decoder := gosnmp.GoSNMP{Version: gosnmp.Version2c, Community: "public"}
			packet, err := decoder.SnmpDecodePacket(request)
			if err != nil {
				t.Errorf("decode a request: %v", err)
				return nil
			}
			if packet.PDUType == gosnmp.GetRequest {
				return says(t, nil)(request)
			}
			first := 0
			_, _ = fmt.Sscanf(packet.Variables[0].Name, processors+".%d", &first)
			packet.PDUType, packet.Variables, packet.MaxRepetitions, packet.NonRepeaters = gosnmp.GetResponse, nil, 0, 0
			for n := first; n < first+walkRows && n < len(tt.percents); n++ {
				packet.Variables = append(packet.Variables, gosnmp.SnmpPDU{Name: fmt.Sprintf("%s.%d", processors, n+1), Type: gosnmp.Integer, Value: tt.percents[n]})
			}
			if len(packet.Variables) < walkRows {
				packet.Variables = append(packet.Variables, gosnmp.SnmpPDU{Name: ".1.3.6.1.2.1.25.3.3.1.3", Type: gosnmp.EndOfMibView})
			}
			out, err := packet.MarshalMsg()
			if err != nil {
				t.Errorf("encode an answer: %v", err)
			}
			return out
		})
		s := &snmp{at: at, conf: SNMPConfig{Community: "public"}, ratios: Ratios{CPU: 1}}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		r, err := s.poll(ctx)
		cancel()
		is := fmt.Sprintf("%.2f", r.Load)
		if err != nil {
			is = err.Error()
		}
		if is != tt.want {
			t.Errorf("%d processors: %s, want %s", len(tt.percents), is, tt.want)
		}
	}
}

func TestCountersOfACPU(t *testing.T) {
	at := func(user, idle uint64) values { return values{cpuUser: user, cpuIdle: idle} }
	s := &snmp{ratios: Ratios{CPU: 1}}
	for n, tt := range []struct {
		is      values
		load    float64
		pending bool
	}{
		{at(100, 100), 0, true},
		{at(130, 170), 0.3, false},
		{at(130, 170), 0.3, false}, // the agent has no new ones
		{at(4294967000, 4294967000), 0.5, false},
		{at(204, 704), 500.0 / 1500, false}, // they wrapped
		{at(10, 20), 0, true},               // the agent was restarted
		{at(20, 20), 1, false},
	} {
		r, err := s.read(tt.is, nil)
		if err != nil || math32(r.Load) != math32(tt.load) && !tt.pending || r.Pending != tt.pending {
			t.Errorf("poll %d: %+v, %v, want %v, %v", n, r, err, tt.load, tt.pending)
		}
	}
}

// math32 is a number as far as the test compares it.
func math32(x float64) string { return fmt.Sprintf("%.4f", x) }
