// SPDX-License-Identifier: Apache-2.0

// Packets of a port are captured unmodified, in both directions, in files that other tools read.

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// captured is a packet of a file.
type captured struct {
	data     []byte
	length   int
	in       bool
	comments string
}

// readCapture reads the current contents of a file.
func readCapture(file string) ([]captured, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		return nil, err
	}
	var out []captured
	for {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		one := captured{data: data, length: ci.Length, comments: strings.Join(opts.Comments, ", ")}
		one.in = opts.Flags != nil && opts.Flags.Direction == pcapgo.NgEpbFlagDirectionInbound
		out = append(out, one)
	}
}

// probe is a frame of n bytes without an answer.
func probe(from []byte, n int) []byte {
	return pkt.EthernetFrame([]byte{2, 0, 0, 0, 0, 9}, from, streamType, noise(n - 14)[:n-14])
}

func TestCaptureKeepsPacketsAsTheyAre(t *testing.T) {
	onEachHook(t, func(t *testing.T, _ string, d *daemon, hosts [3]*netns.Node) {
		reaches(t, hosts[0], "10.0.0.3")
		d.calm("br1")
		file := filepath.Join(d.dir, "p1.pcapng")
		w := d.watch("capture", "br1:p1", "ether", "proto", fmt.Sprint(streamType), "-w", file)
		// copies of a flood, to a netdev and to another bridge
		copies := map[string]string{"br1:p2": filepath.Join(d.dir, "p2.pcapng"), "br1:up": filepath.Join(d.dir, "up.pcapng")}
		for place, file := range copies {
			d.watch("capture", place, "ether", "proto", fmt.Sprint(streamType), "-w", file)
		}
		there, back := netns.OpenRaw(t, hosts[0], netns.Inner), netns.OpenRaw(t, hosts[2], netns.Inner)
		var want [][]byte
		for _, n := range []int{60, 200, 1514} {
			want = append(want, probe(hosts[0].MAC, n))
		}
		// one that comes back according to the bridges' tables
		reply := pkt.EthernetFrame(hosts[0].MAC, hosts[2].MAC, streamType, noise(100)[:100])
		var got []captured
		netns.Eventually(t, patience, func() (err error) {
			for _, frame := range want {
				if err := there.Send(frame); err != nil {
					return err
				}
			}
			if err := back.Send(reply); err != nil {
				return err
			}
			if got, err = readCapture(file); err != nil {
				return err
			}
			errs := []error{holds(got, want, reply)}
			for place, file := range copies {
				sent, err := readCapture(file)
				for _, frame := range want {
					errs = append(errs, err, find(sent, frame, false, "port "+place+", fate sent"))
				}
			}
			return errors.Join(errs...)
		})
		if err := w.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		<-w.ended
		d.calm("br1")
		readByOthers(t, file, len(got))
	})
}

// holds returns what is missing in a capture at br1:p1.
func holds(got []captured, sent [][]byte, reply []byte) error {
	errs := []error{find(got, reply, false, "port br1:p1, fate sent")}
	for _, frame := range sent {
		errs = append(errs, find(got, frame, true, "port br1:p1, fate flood"))
	}
	return errors.Join(errs...)
}

// find reports whether a frame is among the captured ones.
func find(got []captured, frame []byte, in bool, comments string) error {
	for _, p := range got {
		if bytes.Equal(p.data, frame) && p.in == in && p.length == len(frame) && p.comments == comments {
			return nil
		}
	}
	return fmt.Errorf("no packet of %d bytes, in %t, with the comment %q among %d", len(frame), in, comments, len(got))
}

// readByOthers lets tcpdump, and tshark if it is there, read the file.
func readByOthers(t *testing.T, file string, least int) {
	t.Helper()
	for _, tool := range [][]string{{"tcpdump", "-n", "-r", file}, {"tshark", "-n", "-r", file}} {
		if _, err := exec.LookPath(tool[0]); err != nil {
			t.Logf("%s is not installed, the file is not read by it", tool[0])
			continue
		}
		out, err := exec.Command(tool[0], tool[1:]...).Output()
		if err != nil {
			var exit *exec.ExitError
			errors.As(err, &exit)
			t.Errorf("%s: %v: %s", tool[0], err, exit.Stderr)
			continue
		}
		if n := strings.Count(string(out), "\n"); n < least {
			t.Errorf("%s reads %d packets, %d were captured", tool[0], n, least)
		}
	}
}

func TestCaptureShowsPacketsAndTheirFate(t *testing.T) {
	t.Parallel()
	d := start(t)
	hosts := threeHosts(d.machine, v4)
	d.twoBridges("TC")
	d.Do("transparenthelloworld add th1")
	d.Do("attach th1 veth1")
	reaches(t, hosts[0], "10.0.0.3")
	port, netdev, tcube := d.watch("capture", "br1:up", "icmp"), d.watch("capture", "veth1", "icmp"), d.watch("capture", "th1", "icmp", "-json")
	netns.Eventually(t, patience, func() error {
		if err := hosts[0].Ping("10.0.0.3"); err != nil {
			return err
		}
		return errors.Join(
			tells(port.out.String(), []string{` br1:up +out +sent +10\.0\.0\.1 > 10\.0\.0\.3: ICMP echo request`,
				` br1:up +in +send p1 +10\.0\.0\.3 > 10\.0\.0\.1: ICMP echo reply`}),
			tells(netdev.out.String(), []string{` th1 +in +pass +10\.0\.0\.1 > 10\.0\.0\.3: ICMP echo request`,
				` th1 +out +pass +10\.0\.0\.3 > 10\.0\.0\.1: ICMP echo reply`}),
			tells(tcube.out.String(), []string{`"cube":"th1".*"direction":"ingress".*"verdict":"pass".*echo request`}))
	})
	d.Do("th1 set ingress-action=DROP")
	netns.Eventually(t, patience, func() error {
		_ = hosts[0].Ping("10.0.0.3", netns.Brief) // it must not come back
		return tells(netdev.out.String(), []string{` th1 +in +drop ingress-drop +10\.0\.0\.1 > 10\.0\.0\.3: ICMP echo request`})
	})
	for _, c := range []struct {
		place, says string
		code        int
	}{
		{"nobody:p1", "nobody", 2}, {"br1:p9", "not found", 2}, {"br1", "has ports", 2}, {"eth9", "eth9", 2},
		{"-w", "name the port, cube or netdev first", 64}, {"br1:p1 -w /proc/self/cwd", "is a symbolic link", 74},
	} {
		if r := d.CLI(append([]string{"capture"}, strings.Fields(c.place)...)...); r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("want exit %d and %q: %v", c.code, c.says, r)
		}
	}
}
