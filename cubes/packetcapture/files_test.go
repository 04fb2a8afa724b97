// SPDX-License-Identifier: Apache-2.0

package packetcapture_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"time"
)

// names are the files of a directory.
func names(t testing.TB, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// wantFiles waits until a directory has files with so many packets each, in the order of their names.
func (r *rig) wantFiles(want string) {
	r.t.Helper()
	netns.Eventually(r.t, bpftest.Patience, func() error {
		var got []string
		for _, name := range names(r.t, r.dir) {
			got = append(got, fmt.Sprintf("%s:%d", name, len(read(r.t, r.file(name)))))
		}
		if text := strings.Join(got, " "); text != want {
			return fmt.Errorf("the files are %q, want %q", text, want)
		}
		return nil
	})
}

func TestDumpNamesTheFile(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"all"`)
	if got := l.Read("pc dump"); got != `"no packet captured"` {
		t.Errorf("before the first packet: %s", got)
	}
	r.in(udp4)
	captured(t, r.file("out.pcap"), udp4)
	if got, want := l.Read("pc dump"), fmt.Sprintf("%q", "capture dump in "+r.file("out.pcap")); got != want {
		t.Errorf("dump is %s, want %s", got, want)
	}
	if st, err := os.Stat(r.file("out.pcap")); err != nil || st.Mode() != 0o600 {
		t.Errorf("its mode is %v (%v)", st.Mode(), err)
	}
	var file struct {
		Path string
		Size int
	}
	if err := json.Unmarshal([]byte(l.Read("pc file")), &file); err != nil || file.Path != r.file("out.pcap") || file.Size != 24+16+len(udp4) {
		t.Errorf("file is %+v (%v)", file, err)
	}
	l.Set("PATCH", "pc dump", fmt.Sprintf("%q", r.file("other.pcap"))) // the suffix is not repeated
	r.in(tcp4)
	captured(t, r.file("other.pcap"), tcp4)
	l.Set("PATCH", "pc networkmode", "true")
	if got := l.Read("pc dump"); !strings.Contains(got, "networkmode") {
		t.Errorf("in network mode dump is %s", got)
	}
}

func TestWithoutADumpANameIsMadeUp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"all"`)
	l.Set("PATCH", "pc dump", `""`)
	r.in(udp4)
	r.settled()
	got := names(t, dir)
	if i := slices.IndexFunc(got, func(n string) bool { return strings.HasPrefix(n, "capture_") && strings.HasSuffix(n, ".pcap") }); i < 0 {
		t.Errorf("the files are %v", got)
	}
	l.Set("PATCH", "pc dump", `"relative"`)
	r.in(tcp4)
	captured(t, filepath.Join(dir, "relative.pcap"), tcp4)
}

func TestEachCaptureHasItsOwnFile(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"all"`)
	r.in(udp4)
	r.settled()
	for range 2 {
		l.Set("PATCH", "pc capture", `"OFF"`)
		r.in(udp4)
		l.Set("PATCH", "pc capture", `"BIDIRECTIONAL"`)
		r.in(tcp4)
		r.in(udp4)
		r.settled()
	}
	r.wantFiles("out.pcap:1 out_00001.pcap:2 out_00002.pcap:2")
}

func TestFilesRotate(t *testing.T) {
	size := 24 + 2*(16+len(udp4))
	for name, tt := range map[string]struct {
		rotation, files string
		packets         int
	}{
		"not":      {`"rotation":{}`, "out.pcap:10", 10},
		"by size":  {fmt.Sprintf(`"rotation":{"size":%d}`, max(size, 1024)), "out.pcap:3 out_00001.pcap:3 out_00002.pcap:3 out_00003.pcap:1", 10},
		"by count": {fmt.Sprintf(`"rotation":{"size":%d,"files":2}`, max(size, 1024)), "out_00002.pcap:3 out_00003.pcap:1", 10},
	} {
		t.Run(name, func(t *testing.T) {
			l := bpftest.New(t, bpftest.Options{Hosts: 2})
			r := newRig(t, l, `,"capture":"INGRESS","filter":"all",`+tt.rotation)
			for range tt.packets {
				r.in(udp4)
			}
			if s := r.settled(); s.Delivered != uint64(tt.packets) {
				t.Errorf("%+v", s)
			}
			r.wantFiles(tt.files)
		})
	}
}

func TestFilesRotateByTime(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"all","rotation":{"seconds":1}`)
	begin := time.Now()
	netns.Eventually(t, pace.Stretch(20*time.Second), func() error {
		r.in(udp4)
		if n := len(names(t, r.dir)); n < 3 {
			return fmt.Errorf("%d files", n)
		}
		return nil
	})
	if took := time.Since(begin); took < time.Second {
		t.Errorf("three files after %v", took)
	}
	r.settled()
	last := uint32(0)
	for _, name := range names(t, r.dir) {
		packets := read(t, r.file(name))
		first, end := uint32(packets[0].at.Unix()), uint32(packets[len(packets)-1].at.Unix())
		if end != first || first == last {
			t.Errorf("%s has packets from %d to %d, the file before from %d", name, first, end, last)
		}
		last = first
	}
}

func TestOnlyTheFilesOfTheCaptureAreDeleted(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, "")
	for name, content := range map[string]string{"out_00001.pcap": "old", "out_1.pcap": "other", "out_00002.pcap.gz": "other", "outside.pcap": "other", "out_x.pcap": "other"} {
		if err := os.WriteFile(r.file(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hostname", r.file("out_00003.pcap")); err != nil {
		t.Fatal(err)
	}
	l.Set("PATCH", "pc", `{"capture":"INGRESS","filter":"all","rotation":{"files":1}}`)
	r.in(udp4)
	r.settled()
	want := []string{"out_00002.pcap.gz", "out_00003.pcap", "out_00004.pcap", "out_1.pcap", "out_x.pcap", "outside.pcap"}
	if got := names(t, r.dir); !slices.Equal(got, want) {
		t.Errorf("the files are %v, want %v", got, want)
	}
}

func TestExistingFilesAndLinksOfOthersAreLeftAlone(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, "")
	victim := filepath.Join(t.TempDir(), "victim.pcap")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, r.file("out.pcap")); err != nil {
		t.Fatal(err)
	}
	l.Set("PATCH", "pc", `{"capture":"INGRESS","filter":"all"}`)
	r.in(udp4)
	captured(t, r.file("out_00001.pcap"), udp4)
	if got, err := os.ReadFile(victim); err != nil || string(got) != "precious" {
		t.Errorf("the file behind the link is %q (%v)", got, err)
	}

	// A link in a directory that others can write to.
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(r.dir, open+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := l.Try("PATCH", "pc dump", fmt.Sprintf("%q", open+"/link/x")); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a path through a link in a directory of others: %v", err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	l.Set("PATCH", "pc dump", fmt.Sprintf("%q", open+"/link/x"))
	r.in(tcp4)
	captured(t, r.file("x.pcap"), tcp4)
}

func TestImpossiblePathsAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, "")
	for path, says := range map[string]string{
		r.dir + "/none/x":                      "create the directory",
		r.dir + "/":                            "append a file name",
		"/dev/null/x":                          "expected a directory",
		r.dir + "/" + strings.Repeat("n", 231): "at most 230 are allowed",
	} {
		if err := l.Try("PATCH", "pc dump", fmt.Sprintf("%q", path)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
}

// tinyDisk mounts a filesystem of 64 KB on the directory of the files.
func (r *rig) tinyDisk() {
	r.t.Helper()
	if err := unix.Mount("tmpfs", r.dir, "tmpfs", unix.MS_NOSUID, "size=64k"); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := unix.Unmount(r.dir, unix.MNT_DETACH); err != nil {
			r.t.Error(err)
		}
	})
}

func TestAFullDiskLosesPacketsThatAreCounted(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, "")
	r.tinyDisk()
	if err := os.WriteFile(r.file("ballast"), make([]byte, 60<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Set("PATCH", "pc", `{"capture":"INGRESS","filter":"all"}`)
	sent := uint64(0)
	var s statistics
	netns.Eventually(t, pace.Stretch(20*time.Second), func() error {
		l.Flood("veth1", udp4, 100)
		sent += 100
		if s = r.settled(); s.LostFile == 0 {
			return fmt.Errorf("nothing is lost: %+v", s)
		}
		return nil
	})
	if s.Captured != sent || s.LostQueue != 0 || s.LostRing != 0 {
		t.Errorf("%+v after %d packets", s, sent)
	}
	if got := l.Read("pc file error"); !strings.Contains(got, "no space left") {
		t.Errorf("file/error is %s", got)
	}
	wantLog(t, l, "packets are lost: they cannot be written")
	if got := read(t, r.file("out.pcap")); uint64(len(got)) != s.Delivered {
		t.Errorf("the file has %d packets, %d were delivered", len(got), s.Delivered)
	}
	if err := os.Remove(r.file("ballast")); err != nil {
		t.Fatal(err)
	}
	netns.Eventually(t, pace.Stretch(20*time.Second), func() error {
		before := s.Delivered
		r.in(tcp4)
		if s = r.settled(); s.Delivered == before {
			return fmt.Errorf("nothing is written again: %+v", s)
		}
		return nil
	})
	got := read(t, r.file("out.pcap"))
	if uint64(len(got)) != s.Delivered || !bytes.Equal(got[len(got)-1].data, tcp4) {
		t.Errorf("the file has %d packets, %d were delivered", len(got), s.Delivered)
	}
	if got, err := l.TryRead("pc file error"); err == nil && got != `""` && got != "null" {
		t.Errorf("file/error is %s", got)
	}
	wantLog(t, l, "packets are written again")
}

func wantLog(t *testing.T, l *bpftest.Lab, text string) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() error {
		if logs := l.Logs(); !strings.Contains(logs, text) {
			return fmt.Errorf("%s is not in\n%s", text, logs)
		}
		return nil
	})
}

func TestADirectoryThatIsGoneIsTriedAgain(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"all"`)
	if err := os.Remove(r.dir); err != nil {
		t.Fatal(err)
	}
	r.in(udp4)
	if s := r.settled(); s.LostFile != 1 {
		t.Errorf("%+v", s)
	}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	netns.Eventually(t, pace.Stretch(20*time.Second), func() error {
		r.in(tcp4)
		if s := r.settled(); s.Delivered == 0 {
			return fmt.Errorf("nothing is written: %+v", s)
		}
		return nil
	})
}
