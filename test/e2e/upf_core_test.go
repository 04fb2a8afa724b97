// SPDX-License-Identifier: Apache-2.0

// An SMF of others: its messages are encoded and decoded by a library that polycube-upf does not use. make test-core builds it, in
// test/core/smf, and runs this.

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
)

// step says how far the test is.
func (f *foreign) step(format string, args ...any) {
	f.t.Helper()
	f.faults()
	f.t.Logf(format, args...)
}

// TestAnSMFOfOthers drives polycube-upf through the life of an association and of a session, with packets.
func TestAnSMFOfOthers(t *testing.T) {
	if os.Getenv(coreSMF) == "" {
		t.Skipf("needs an SMF that is written in Rust, in %s: run make test-core", coreSMF)
	}
	for _, typ := range []string{"TC", "XDP_DRV"} {
		t.Run(typ, func(t *testing.T) {
			f := &foreign{core: newUserPlane(t, typ, "max-sessions=1000 max-rules=4000", "")}
			f.startSMF()
			f.associate()
			f.establish()
			f.rejects()
			f.reportsUsage()
			f.handOver()
			f.page()
			f.limit()
			f.restartUPF()
			f.reportTunnels()
			f.remove()
			f.restartSMF()
			f.leave()
			f.faults()
		})
	}
}

// associate sets up the association, after which both ends send heartbeats.
func (f *foreign) associate() {
	f.t.Helper()
	f.step("the SMF sets up an association")
	is := f.ask("associate", "cause=1", "node=IPv4("+upfAddress+")", "features=DDND,FTUP,EMPU,UEIP,MNOP", "recovery")
	f.ask("heartbeat", "recovery="+is.says["recovery"])
	f.asked("HeartbeatRequest", "recovery="+is.says["recovery"])
}

// establish has a request refused, and then establishes the session of a phone.
func (f *foreign) establish() {
	f.t.Helper()
	f.step("a session is established, after the UPF has refused one whose PDR has no FAR")
	f.ask("establish-without-far 6", "to=6", "cause=73", "failed=Pdr:2")
	is := f.ask("establish 7 "+gNB1+" 1025 9", "cause=1", "to=7", "seid", "teid.1", "address.1")
	teid, at, _ := strings.Cut(is.says["teid.1"], "@")
	uplink, err := strconv.ParseUint(teid, 10, 32)
	if err != nil || at != n3Address || is.says["teid.3"] != is.says["teid.1"] {
		f.t.Fatalf("the UPF chooses the tunnels %q and %q", is.says["teid.1"], is.says["teid.3"])
	}
	f.seid, f.address = is.says["seid"], is.says["address.1"]
	if a, err := netip.ParseAddr(f.address); err != nil || !netip.MustParsePrefix("10.1.0.0/16").Contains(a) {
		f.t.Fatalf("the UPF allocates the address %q", f.address)
	}
	f.attachPhone(uint32(uplink), f.address)
	f.numbers = f.numbersTo(f.address)
	f.ran.Reaches(f.t, patience, webServer)
}

// socket is one of UDP in a namespace: bound to an address, or connected from one.
func (f *foreign) socket(in *netns.Namespace, local, remote string) *net.UDPConn {
	f.t.Helper()
	var c *net.UDPConn
	at := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(local))
	in.Must(func() (err error) {
		if remote == "" {
			c, err = net.ListenUDP("udp", at)
		} else {
			c, err = net.DialUDP("udp", at, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(remote)))
		}
		return err
	})
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

const (
	rejectedDatagrams = 10
	// rejectedBytes are those of their IP packets.
	rejectedBytes = rejectedDatagrams * (20 + 8 + 100)
)

// rejects sends datagrams to the port of PDR 3, which are dropped, and one to another port, which overtakes none of them.
func (f *foreign) rejects() {
	f.t.Helper()
	f.step("packets of the SDF filter whose FAR drops do not pass")
	rejected, passing := f.socket(f.dn.Namespace, webServer+":9", ""), f.socket(f.dn.Namespace, webServer+":10", "")
	to9, to10 := f.socket(f.ran.Namespace, f.address+":0", webServer+":9"), f.socket(f.ran.Namespace, f.address+":0", webServer+":10")
	datagram := make([]byte, 100)
	for range rejectedDatagrams {
		_, _ = to9.Write(datagram)
	}
	_, _ = to10.Write(datagram)
	_ = passing.SetReadDeadline(time.Now().Add(patience))
	if _, err := passing.Read(datagram); err != nil {
		f.t.Fatalf("a datagram that is to pass: %v", err)
	}
	_ = rejected.SetReadDeadline(time.Now())
	if _, err := rejected.Read(datagram); !errors.Is(err, os.ErrDeadlineExceeded) {
		f.t.Errorf("a datagram that is to be dropped has come (%v)", err)
	}
}

// reportsUsage has usage reported at a threshold and on request.
func (f *foreign) reportsUsage() {
	f.t.Helper()
	f.step("usage is reported at a threshold, and on request")
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	f.serve(content)
	f.ask("threshold "+f.seid+" 200000", "cause=1", "to=7")
	f.download(content)
	if is := f.asked("SessionReportRequest", "to=7", "types=ReportType(USAR)", "usage"); !strings.Contains(is.usage[0], ":VOLTH:") {
		f.t.Errorf("the usage report %q is not of the threshold", is.usage[0])
	}
	if is := f.ask("query "+f.seid, "cause=1", "usage"); !strings.Contains(is.usage[0], ":IMMER:") {
		f.t.Errorf("the usage report %q is not of the query", is.usage[0])
	}
	f.download(content)
}

// handOver moves the phone to another base station while packets come.
func (f *foreign) handOver() {
	f.t.Helper()
	f.step("a phone is handed over, with an End Marker")
	end := f.numbers.stream(20)
	reached := f.one.Packets() + 1000
	f.eventually(func() error {
		if f.one.Packets() < reached {
			return errors.New("the packets do not come to the first base station")
		}
		return nil
	})
	f.two.Expect(f.phone, 2049)
	f.ask("tunnel "+f.seid+" "+gNB2+" 2049 true", "cause=1")
	f.eventually(func() error {
		if ends := f.one.Ends(); !slices.Equal(ends, []uint32{1025}) || f.two.Packets() < 1000 {
			return fmt.Errorf("End Markers %v to the former base station, %d packets to the next", ends, f.two.Packets())
		}
		return nil
	})
	sent, got := end()
	if err := movedInOrder(sent, got); err != nil {
		f.t.Error(err)
	}
	if late := f.one.AfterEnd(); late > 0 {
		f.t.Errorf("%d packets came to the former base station after its End Marker", late)
	}
	f.two.Take(f.phone)
	f.ran.Reaches(f.t, patience, webServer)
}

// page buffers packets for the phone until the SMF has woken it.
func (f *foreign) page() {
	f.t.Helper()
	f.step("packets to an idle phone are buffered and reported, and released in order")
	f.ask("buffer "+f.seid, "cause=1")
	f.numbers.send(0, 300)
	f.asked("SessionReportRequest", "to=7", "types=ReportType(DLDR)", "waiting=2")
	f.ask("tunnel "+f.seid+" "+gNB2+" 2049 false", "cause=1")
	if err := inOrder(300, f.numbers.read(300, func(int) {})); err != nil {
		f.t.Error(err)
	}
}

// limit sends for a moment more than the maximum bit rate, 16 Mbit/s, of which the phone gets no more than the rate and a burst of
// 100 ms.
func (f *foreign) limit() {
	f.t.Helper()
	f.step("the rate of a session is limited to what its QER says")
	f.ask("rate "+f.seid+" 16000 16000", "cause=1")
	const packets, size, perSecond = 20_000, 20 + 8 + 100, 2e6
	begin := time.Now()
	took, last := make(chan time.Duration, 1), begin
	go func() {
		f.numbers.send(0, packets)
		took <- time.Since(begin)
	}()
	got := size * float64(len(f.numbers.read(packets, func(int) { last = time.Now() })))
	sending, most := (<-took).Seconds(), perSecond*(0.1+last.Sub(begin).Seconds())
	f.t.Logf("%.0f kbyte of %d passed in %.2f s", got/1000, packets*size/1000, sending)
	if got > 1.02*most || got < perSecond/2*sending {
		f.t.Errorf("%.0f bytes passed in %.2f s, want at most %.0f and not less than half of the rate", got, sending, most)
	}
	f.ask("rate "+f.seid+" 1000000 1000000", "cause=1")
}

// restartUPF kills polycube-upf, which loses neither the session nor a count.
func (f *foreign) restartUPF() {
	f.t.Helper()
	f.step("polycube-upf is killed and started")
	before := f.ask("heartbeat", "recovery").says["recovery"]
	f.killUPF()
	f.ran.Reaches(f.t, patience, webServer)
	f.startUPF()
	f.ask("heartbeat", "recovery="+before)
	f.ask("query "+f.seid, "cause=1", "usage")
	f.ask("forward-unknown "+f.seid, "to=7", "cause=73", "failed=Far:99")
	f.ask("forward-nameless "+f.seid, "to=7", "cause=66", "offending=108")
	f.ran.Reaches(f.t, patience, webServer)
}

// reportTunnels has a base station not know a tunnel, and then answer nothing.
func (f *foreign) reportTunnels() {
	f.t.Helper()
	f.step("the Error Indication of a base station, and its silence, are reported")
	const silent = "192.0.2.40"
	f.Do("u set echo-interval=1 echo-timeout=1 echo-requests=2")
	f.ran.Run("ip", "addr", "add", silent+"/24", "dev", "eth0")
	station := f.socket(f.ran.Namespace, silent+":2152", n3Address+":2152")
	f.ask("tunnel "+f.seid+" "+silent+" 7 false", "cause=1")
	sends := func(m gtpu.Message) {
		b, err := m.Append(nil)
		if err != nil {
			f.t.Fatal(err)
		}
		_, _ = station.Write(b) // the SMF is notified
	}
	// A base station indicates the error of each packet. Those that come before the daemon has looked for new peers are not heeded.
	f.askedAfter(func() { sends(gtpu.Indication(7, netip.MustParseAddr(silent))) }, "SessionReportRequest", "to=7",
		"types=ReportType(ERIR)", "unknown=7@"+silent)
	sends(gtpu.Echo(false, 5)) // one that was never heard is not supervised
	f.asked("NodeReportRequest", "silent=Some("+silent+")")
	f.ask("tunnel "+f.seid+" "+gNB2+" 2049 false", "cause=1")
	f.ran.Reaches(f.t, patience, webServer)
}

// remove deletes the session. What was reported in all is what the phone has sent and got, but for what was rejected.
func (f *foreign) remove() {
	f.t.Helper()
	f.step("the session is deleted, and its usage compared")
	want := f.settledCounts()
	want.Up, want.Total, want.UpPackets = want.Up-rejectedBytes, want.Total-rejectedBytes, want.UpPackets-rejectedDatagrams
	for _, station := range []*mobile.Station{f.one, f.two} {
		station.AllowErrors() // what the phone sends late has no session any more
	}
	if is := f.ask("delete "+f.seid, "cause=1", "to=7", "usage"); !strings.Contains(is.usage[0], ":TERMR:") {
		f.t.Errorf("the usage report %q is not of the end", is.usage[0])
	}
	for _, m := range f.messages("request") {
		f.noteUsage(m)
	}
	sum := sumOf(f.reported)
	if f.t.Logf("%d reports: %+v", len(f.reported), sum); sum != want {
		f.t.Errorf("reported were %+v, and through the phone's interface went %+v: %+v", sum, want, f.reported)
	}
	f.ask("delete "+f.seid, "cause=65")
	f.noSessions()
}

func (f *foreign) noSessions() {
	f.t.Helper()
	f.eventually(func() error {
		if is := f.upfStatus(); is.Sessions != 0 || is.Addresses != 0 || is.Malformed != 0 {
			return fmt.Errorf("the status is %+v", is)
		}
		return nil
	})
}

// restartSMF ends the sessions of an SMF that has lost them: its heartbeats say so, or its association.
func (f *foreign) restartSMF() {
	f.t.Helper()
	f.step("the SMF restarts: its sessions are removed when its recovery time stamp says so")
	f.ask("establish 8 "+gNB1+" 1026 9", "cause=1", "to=8")
	f.stopSMF()
	f.startSMF()
	f.asked("HeartbeatRequest")
	f.noSessions()
	seid := f.ask("establish 9 "+gNB1+" 1027 9", "cause=1", "to=9").says["seid"]
	f.stopSMF()
	f.startSMF()
	f.ask("associate", "cause=1")
	f.ask("query "+seid, "cause=65")
	f.noSessions()
}

// leave takes the UPF out of service.
func (f *foreign) leave() {
	f.t.Helper()
	f.step("the UPF leaves: it asks for the release of the association, and accepts no other")
	r := run(f.t, exec.CommandContext(f.t.Context(), program(f.t, "polycube-upf"), "leave", "--control", filepath.Join(f.dir, "upf.sock")), "")
	if r.code != 0 {
		f.t.Fatal(r.stderr)
	}
	f.asked("AssociationUpdateRequest", "release")
	f.ask("release", "cause=1", "node=IPv4("+upfAddress+")")
	f.ask("associate", "cause=64")
	if is := f.upfStatus(); len(is.Peers) != 0 {
		f.t.Errorf("the status is %+v", is)
	}
}
