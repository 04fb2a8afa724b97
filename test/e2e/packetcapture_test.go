// SPDX-License-Identifier: Apache-2.0

// Service packetcapture under live traffic: files that other tools read, changes and crashes that lose no packet of the
// network, and the client of network mode.

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/test/netns"
)

// frames reads the packets of pcap files, which may be in the making.
func frames(t *testing.T, files ...string) (out [][]byte) {
	t.Helper()
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := pcapgo.NewReader(f)
		for err == nil {
			var data []byte
			if data, _, err = r.ReadPacketData(); err == nil {
				out = append(out, data)
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", file, err)
		}
		_ = f.Close()
	}
	return out
}

// streamNumbers are those of the frames of a stream.
func streamNumbers(all [][]byte) (out []uint64) {
	for _, f := range all {
		if isStream(f) {
			out = append(out, binary.BigEndian.Uint64(f[18:]))
		}
	}
	return out
}

func TestPacketcaptureFilesAreReadByOthers(t *testing.T) {
	onEachHook(t, func(t *testing.T, kind string, d *daemon, hosts [3]*netns.Node) {
		d.Do("packetcapture add pc1 type=" + kind + " capture=BIDIRECTIONAL filter=icmp dump=" + d.dir + "/icmp")
		d.Do("packetcapture add pc2 type=" + kind + " capture=EGRESS timestamps=NANOSECONDS dump=" + d.dir + "/out")
		d.Must(200, "PATCH", "/packetcapture/pc2/filter", `"icmp[icmptype] = icmp-echoreply"`)
		d.Do("attach pc1 br1:p1")
		d.Do("attach pc2 veth1")
		reaches(t, hosts[0], "10.0.0.3")
		for range 10 {
			if err := hosts[0].Ping("10.0.0.3"); err != nil {
				t.Error(err)
			}
		}
		for file, least := range map[string]int{"icmp.pcap": 20, "out.pcap": 10} {
			file = filepath.Join(d.dir, file)
			netns.Eventually(t, patience, func() error {
				if _, err := os.Stat(file); err != nil {
					return err
				}
				if n := len(frames(t, file)); n < least {
					return fmt.Errorf("%s has %d packets", file, n)
				}
				return nil
			})
			readByOthers(t, file, least)
		}
		for _, f := range frames(t, filepath.Join(d.dir, "out.pcap")) {
			if f[23] != 1 || f[34] != 0 {
				t.Errorf("the filter took %x", f)
			}
		}
	})
}

// TestPacketcaptureHarmsNoPacket: whatever is changed, and even if the daemon is killed, every packet arrives.
func TestPacketcaptureHarmsNoPacket(t *testing.T) {
	onEachHook(t, func(t *testing.T, kind string, d *daemon, hosts [3]*netns.Node) {
		reaches(t, hosts[0], "10.0.0.3")
		s := startStream(t, hosts[0], hosts[2])
		d.Do("packetcapture add pc1 type=" + kind + " filter=all dump=" + d.dir + "/out")
		d.Do("attach pc1 br1:p1")
		for _, change := range []string{
			`{"capture":"BIDIRECTIONAL"}`, `{"snaplen":64}`, `{"filter":"ether proto 0x88b5"}`, `{"filter":"tcp"}`, `{"capture":"EGRESS"}`,
			`{"networkmode":true,"filter":"all"}`, `{"capture":"OFF"}`, `{"networkmode":false,"capture":"INGRESS","filter":"ether proto 0x88b5"}`,
		} {
			d.Must(201, "PATCH", "/packetcapture/pc1", change)
			s.Flowing(200)
		}
		d.Kill9()
		s.Flowing(500)
		d = d.Start()
		s.Flowing(200)
		d.Do("pc1 set capture=OFF")
		sent := s.Stop()
		d.calm("pc1")
		netns.Eventually(t, patience, func() error { return settled(d, "pc1") })
		files, err := filepath.Glob(d.dir + "/out*.pcap")
		if err != nil || len(files) < 3 {
			t.Fatalf("files %v, %v", files, err)
		}
		last := streamNumbers(frames(t, files[len(files)-1]))
		for i := range last[1:] {
			if last[i+1] != last[i]+1 {
				t.Errorf("after %d comes %d: the capture has lost packets since the restart", last[i], last[i+1])
			}
		}
		if len(last) < 500 || last[len(last)-1] >= sent {
			t.Errorf("%d packets since the crash, the last one is %d of %d", len(last), last[len(last)-1], sent)
		}
	})
}

// settled tells whether all packets of a capture are in files.
func settled(d *daemon, name string) error {
	var is struct {
		Queued uint64
	}
	d.Get("/packetcapture/"+name+"/statistics", &is)
	if is.Queued > 0 {
		return fmt.Errorf("%d packets wait", is.Queued)
	}
	return nil
}

// TestPacketcaptureClientWritesAFile: over a restart of the daemon, in network mode.
func TestPacketcaptureClientWritesAFile(t *testing.T) {
	t.Parallel()
	d := start(t)
	hosts := threeHosts(d.machine, v4)
	d.twoBridges("TC")
	reaches(t, hosts[0], "10.0.0.3")
	s := startStream(t, hosts[0], hosts[2])
	d.Must(201, "POST", "/packetcapture/pc1", `{"capture":"INGRESS","networkmode":true,"filter":"ether proto 0x88b5"}`)
	d.Do("attach pc1 br1:p1")
	file := filepath.Join(d.dir, "client.pcap")
	cmd := exec.CommandContext(t.Context(), program(t, "pcn-packetcapture"), "-c", "2000", "-w", file, "pc1")
	cmd.Env = d.environment()
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	netns.Eventually(t, patience, func() error {
		if st, err := os.Stat(file); err != nil || st.Size() < 24 {
			return fmt.Errorf("nothing is in the file yet: %w", err)
		}
		return nil
	})
	d.Kill9()
	d.Start()
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "2000 packets captured") {
		t.Errorf("it ended with %v: %s", err, said.String())
	}
	s.Stop()
	if got := streamNumbers(frames(t, file)); len(got) != 2000 {
		t.Errorf("the file has %d packets", len(got))
	}
	readByOthers(t, file, 2000)
}
