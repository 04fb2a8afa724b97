// SPDX-License-Identifier: Apache-2.0

package confine

// What may be started, what is logged and where limits are written: the parts that need no process.

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/output"
)

func TestExecutablesThatOthersCanChangeAreRefused(t *testing.T) {
	t.Parallel()
	dir, executable := place(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string, mode os.FileMode, owner int) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(at(name)), 0o755), os.WriteFile(at(name), []byte(text), 0o755),
			os.Chown(at(name), owner, 0), os.Chmod(at(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	const script = "#!/bin/sh\n"
	write("good", script, 0o755, 0)
	write("foreign", script, 0o755, 1234)
	write("group", script, 0o775, 0)
	write("world", script, 0o757, 0)
	write("setuid", script, 0o755|os.ModeSetuid, 0)
	write("private", script, 0o700, 0)
	write("text", "hello\n", 0o755, 0)
	write("nothing", "#!\n", 0o755, 0)
	write("relative", "#!python3\n", 0o755, 0)
	write("unsafe", "#!"+at("foreign")+"\n", 0o755, 0)
	write("open/good", script, 0o755, 0)
	write("theirs/good", script, 0o755, 0)
	write("theirs/deep/good", script, 0o755, 0)
	if err := errors.Join(os.Symlink(at("good"), at("link")), os.Symlink(dir, at("way")), os.Chmod(at("open"), 0o777),
		os.Chown(at("theirs"), 1234, 0), os.Symlink("loop", at("loop")), os.Mkdir(at("dir"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/version", at("shell")); err != nil {
		t.Fatal(err)
	}
	write("hidden", "#!"+at("shell")+"\n", 0o755, 0)
	write("looping", "#!"+at("loop")+"\n", 0o755, 0)
	for _, tt := range []struct{ path, says string }{
		{executable, ""},
		{at("good"), ""},
		{"service", "the path must begin with /"},
		{"", "the path must begin with /"},
		{dir + "/x/../good", "write it as " + at("good")},
		{at("good") + "\x00", "not a valid path"},
		{at("missing"), "no such file"},
		{at("good/below"), "not a directory"},
		{at("dir"), "not a regular file"},
		{"/dev/null", "it is in /dev, which services cannot see"},
		{"/tmp/service", "it is in /tmp, which services cannot see"},
		{at("foreign"), "is owned by user 1234"},
		{at("group"), "is writable by users other than root (mode 0775)"},
		{at("world"), "is writable by users other than root (mode 0757)"},
		{at("setuid"), "it is setuid or setgid"},
		{at("private"), "not executable by other users (mode 0700)"},
		{at("text"), "neither an ELF program nor a script"},
		{at("nothing"), "its first line has no interpreter"},
		{at("relative"), `its interpreter "python3": the path must begin with /`},
		{at("unsafe"), "its interpreter"},
		{at("hidden"), "it is in /proc, which services cannot see"},
		{at("looping"), "too many levels of symbolic links"},
		{at("open/good"), at("open") + " is writable by users other than root"},
		{at("theirs/good"), at("theirs") + " is owned by user 1234"},
		{at("theirs/deep/good"), at("theirs") + " is owned by user 1234"},
		{at("link"), at("link") + " is a symbolic link"},
		{at("way/good"), at("way") + " is a symbolic link"},
	} {
		err := Check(tt.path)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: got %v, want %q", tt.path, err, tt.says)
		}
	}
}

func TestLinesAreCutCleanedAndCounted(t *testing.T) {
	t.Parallel()
	now, waited := time.Unix(0, 0), time.Duration(0)
	said := &output.Buffer{}
	l := newLineLog(slog.New(slog.NewTextHandler(said, nil)))
	l.now = func() time.Time { return now }
	l.pause = func(d time.Duration) { waited += d; now = now.Add(d) }
	l.read(strings.NewReader("plain\n\n\x1b[31mred\xff\n" + strings.Repeat("a", 3*maxLine) + "\nbehind\n"))
	if got, want := strings.Count(said.String(), "\n"), 4; got != want {
		t.Errorf("%d lines, want %d: %s", got, want, said)
	}
	for _, want := range []string{"msg=plain", "msg=\"\uFFFD[31mred\uFFFD\"", "aaa…", "msg=behind"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
	if waited != 0 || l.lastLine() != "behind" {
		t.Errorf("waited %v, the last line is %q", waited, l.lastLine())
	}
	l.read(strings.NewReader("panic: oh\n\ngoroutine 1 [running]:\n"))
	if l.lastLine() != "panic: oh" {
		t.Errorf("the reason of a panic is %q", l.lastLine())
	}
	l.read(io.LimitReader(endless{}, 4*byteRate))
	if waited < 2*time.Second || waited > 4*time.Second {
		t.Errorf("4 seconds' worth of bytes took %v", waited)
	}
	if !strings.Contains(said.String(), "wrote too many lines") {
		t.Errorf("lost lines are not told of: %s", said)
	}
}

// endless writes lines forever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "abcdefg\n"[i%8]
	}
	return len(p), nil
}

// TestLimitsOfGroups writes to a directory that looks like control groups.
func TestLimitsOfGroups(t *testing.T) {
	t.Parallel()
	l := Limits{Memory: 1 << 20, Processes: 7, CPU: 150}
	for _, tt := range []struct {
		name, own string
		has       []string // files there are
		want      map[string]string
		refused   string
	}{
		{"version 2", "0::/s\n", []string{"s/cgroup.controllers=cpuset cpu memory pids", "s/cgroup.subtree_control=cpu memory pids"},
			map[string]string{"s/NEW/memory.max": "1048576", "s/NEW/pids.max": "7", "s/NEW/cpu.max": "75000 50000"}, ""},
		{"version 2, to be turned on", "0::/s\n", []string{"s/cgroup.controllers=memory pids", "s/cgroup.subtree_control=memory"},
			map[string]string{"s/cgroup.subtree_control": " +pids", "s/NEW/memory.max": "1048576", "s/NEW/pids.max": "7"}, ""},
		{"version 1", "4:memory:/a\n3:pids:/\n2:cpu,cpuacct:/b\n1:name=systemd:/\n",
			[]string{"memory/a/cgroup.procs=", "pids/cgroup.procs=", "cpu,cpuacct/b/cgroup.procs="},
			map[string]string{"memory/a/NEW/memory.limit_in_bytes": "1048576", "pids/NEW/pids.max": "7",
				"cpu,cpuacct/b/NEW/cpu.cfs_quota_us": "75000"}, ""},
		{"version 2 without controllers", "0::/s\n", []string{"s/cgroup.controllers=hugetlb"}, nil, "no controller for memory"},
		{"none", "", nil, nil, "no controller for memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			put := func(path, text string) {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range tt.has {
				name, text, _ := strings.Cut(f, "=")
				put(filepath.Join(root, name), text)
			}
			tree := groupTree{root: root, own: tt.own, create: os.O_CREATE} // the kernel makes the files of a group
			g, err := tree.newGroup("1-1-x", l)
			if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
				t.Fatalf("got %v, want %q", err, tt.refused)
			}
			for name, want := range tt.want {
				path := filepath.Join(root, strings.ReplaceAll(name, "NEW", groupPrefix+"1-1-x"))
				if got, err := os.ReadFile(path); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v, want %q", name, got, err, want)
				}
			}
			if tt.refused == "" && len(g.dirs) == 0 {
				t.Error("no group was made")
			}
		})
	}
}

func TestUsersAreNobodyElses(t *testing.T) {
	place(t) // needs root
	var mine []int
	for range 3 {
		u, err := reserveUser()
		if err != nil {
			t.Fatal(err)
		}
		defer u.release()
		if u.id < firstUser || u.id > lastUser || slices.Contains(mine, u.id) {
			t.Errorf("user %d after %v", u.id, mine)
		}
		mine = append(mine, u.id)
	}
	if free, err := unused(os.Getuid()); err != nil || free {
		t.Errorf("the user of this process is free: %v, %v", free, err)
	}
	if _, err := os.Stat(filepath.Join(usersDir, fmt.Sprint(mine[0]))); err != nil {
		t.Error(err)
	}
}
