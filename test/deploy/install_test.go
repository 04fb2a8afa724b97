// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree lists the contents of a directory: files with their modes, and directories.
func tree(t *testing.T, dir string) (files map[string]fs.FileMode, dirs []string) {
	t.Helper()
	files = map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name := strings.TrimPrefix(path, dir)
		if d.IsDir() {
			dirs = append(dirs, name)
			return nil
		}
		info, err := d.Info()
		files[name] = info.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, dirs
}

// forServices are the headers, the models and the sources of the SDK in Go, below the prefix.
func forServices(t *testing.T) (names []string) {
	t.Helper()
	for pattern, to := range map[string]string{"bpf/include/pcn/*.h": "/include/polycube/pcn/", "yang/*.yang": "/share/polycube/yang/",
		"go.???": "/share/polycube/go/", "sdk/go/*.go": "/share/polycube/go/sdk/go/", "cube/*.go": "/share/polycube/go/cube/",
		"cube/origins/*.go": "/share/polycube/go/cube/origins/", "cube/vlan/*.go": "/share/polycube/go/cube/vlan/",
		"api/polycube/service/v1/*.go": "/share/polycube/go/api/polycube/service/v1/", "bucket/*.go": "/share/polycube/go/bucket/", "flow/*.go": "/share/polycube/go/flow/", "inet/*.go": "/share/polycube/go/inet/", "ring/*.go": "/share/polycube/go/ring/",
		"sketch/*.go": "/share/polycube/go/sketch/", "wire/*.go": "/share/polycube/go/wire/"} {
		paths, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, path := range paths {
			if !strings.HasSuffix(path, "_test.go") {
				names = append(names, to+filepath.Base(path))
			}
		}
	}
	return names
}

// TestInstall: everything is in its place, for each prefix, only its owner can change it, the unit starts the installed
// program, and uninstall leaves nothing.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"/usr", "/usr/local", "/opt/polycube"} {
		t.Run(prefix, func(t *testing.T) {
			dest := t.TempDir()
			makeTarget(t, "install", "DESTDIR="+dest, "PREFIX="+prefix)
			files, _ := tree(t, dest)
			want := []string{"/bin/polycubectl", "/lib/systemd/system/polycubed.service", "/lib/sysusers.d/polycube.conf", "/lib/tmpfiles.d/polycube.conf",
				"/sbin/polycubed", "/share/bash-completion/completions/polycubectl", "/share/fish/vendor_completions.d/polycubectl.fish",
				"/share/zsh/site-functions/_polycubectl", "/share/man/man1/polycubectl.1", "/share/man/man1/polycube-cc.1", "/share/man/man8/polycubed.8", "/bin/polycube-cc",
				"/sbin/polycube-upf", "/lib/systemd/system/polycube-upf.service", "/share/man/man8/polycube-upf.8",
				"/sbin/polycube-ndpi", "/lib/systemd/system/polycube-ndpi.service", "/share/man/man8/polycube-ndpi.8",
				"/share/polycube/polycube-python.tar.gz", "/share/polycube/dynmon/dynmon_client.py"}
			scripts := []string{"dynmon_injector.py", "dynmon_extractor.py"}
			for _, name := range scripts {
				if to, err := os.Readlink(dest + prefix + "/bin/" + name); err != nil || to != prefix+"/share/polycube/dynmon/"+name {
					t.Errorf("%s leads to %q, %v", name, to, err)
				}
				delete(files, prefix+"/bin/"+name)
				want = append(want, "/share/polycube/dynmon/"+name)
			}
			links := []string{"/sbin/pcn-ip6tables"}
			for _, name := range []string{"init", "init-xdp", "clean", "save", "restore", "import"} {
				links = append(links, "/sbin/pcn-iptables-"+name)
			}
			links = append(links, "/sbin/pcn-ip6tables-save", "/sbin/pcn-ip6tables-restore", "/sbin/pcn-ipset", "/sbin/pcn-packetcapture")
			for _, name := range links {
				if to, err := os.Readlink(dest + prefix + name); err != nil || to != "pcn-iptables" {
					t.Errorf("%s leads to %q, %v", name, to, err)
				}
				delete(files, prefix+name)
			}
			want = append(append(want, "/sbin/pcn-iptables"), forServices(t)...)
			for _, name := range want {
				mode, ok := files[prefix+name]
				program := strings.HasPrefix(name, "/bin/") || strings.HasPrefix(name, "/sbin/") || slices.Contains(scripts, filepath.Base(name))
				if wantMode := map[bool]fs.FileMode{true: 0o755, false: 0o644}[program]; !ok || mode != wantMode {
					t.Errorf("%s: there %v, mode %v, want %v", name, ok, mode, wantMode)
				}
			}
			for name := range files {
				if !slices.Contains(want, strings.TrimPrefix(name, prefix)) {
					t.Errorf("%s is installed", name)
				}
			}
			for _, name := range []string{"polycubed", "polycube-upf", "polycube-ndpi"} {
				unit, err := os.ReadFile(dest + prefix + "/lib/systemd/system/" + name + ".service")
				if err != nil || !strings.Contains(string(unit), "\nExecStart="+prefix+"/sbin/"+name+" ") || prefix != "/usr/local" && strings.Contains(string(unit), "/usr/local") {
					t.Errorf("the unit of %s starts something else: %v", name, err)
				}
			}
			for _, words := range [][]string{{"/sbin/polycubed", "--version"}, {"/sbin/pcn-iptables", "--version"}, {"/sbin/polycube-upf", "--help"}, {"/sbin/polycube-ndpi", "--help"}, {"/bin/polycubectl", "-h"}, {"/bin/polycube-cc", "-h"}} {
				if text, err := command(dest+prefix+words[0], words[1:]...); err != nil || !strings.Contains(text, "polycube") {
					t.Errorf("%v: %v %s", words, err, text)
				}
			}
			for _, name := range scripts {
				text, err := command("env", "PYTHONDONTWRITEBYTECODE=1", "python3", dest+prefix+"/share/polycube/dynmon/"+name, "--version")
				if err != nil || !strings.Contains(text, name+" 1.0") {
					t.Errorf("%s: %v %s", name, err, text)
				}
			}
			makeTarget(t, "uninstall", "DESTDIR="+dest, "PREFIX="+prefix)
			if files, dirs := tree(t, dest); len(files) > 0 || len(dirs) > 0 {
				t.Errorf("left are files %v, directories %v", files, dirs)
			}
		})
	}
}

// TestUninstallSparesWhatIsNotOurs: configuration, and files of others in the same directories, stay.
func TestUninstallSparesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	dest := t.TempDir()
	makeTarget(t, "install", "DESTDIR="+dest, "PREFIX=/usr/local")
	theirs := []string{"/etc/polycube/polycubed.conf", "/usr/local/bin/other"}
	for _, name := range theirs {
		if err := os.WriteFile(dest+name, []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	makeTarget(t, "uninstall", "DESTDIR="+dest, "PREFIX=/usr/local")
	files, _ := tree(t, dest)
	var left []string
	for name := range files {
		left = append(left, name)
	}
	if slices.Sort(left); !slices.Equal(left, theirs) {
		t.Errorf("left are %v, want %v", left, theirs)
	}
}

// TestGroupsAndDirectories: systemd understands the files that make groups and directories.
func TestGroupsAndDirectories(t *testing.T) {
	t.Parallel()
	need(t, "systemd-sysusers")
	dest := t.TempDir()
	if err := os.MkdirAll(dest+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	if text, err := command("systemd-sysusers", "--root="+dest, filepath.Join(root(t), "deploy", "polycube.sysusers")); err != nil {
		t.Fatalf("systemd-sysusers: %v: %s", err, text)
	}
	groups, err := os.ReadFile(dest + "/etc/group")
	if err != nil || !strings.Contains(string(groups), "polycube:") || !strings.Contains(string(groups), "polycube-read:") {
		t.Errorf("groups %q, %v", groups, err)
	}
	if os.Geteuid() != 0 {
		return // directories of root are made
	}
	if text, err := command("systemd-tmpfiles", "--create", "--root="+dest, filepath.Join(root(t), "deploy", "polycube.tmpfiles")); err != nil {
		t.Fatalf("systemd-tmpfiles: %v: %s", err, text)
	}
	for dir, mode := range map[string]fs.FileMode{"/run/polycube": 0o755, "/var/lib/polycube": 0o755, "/var/log/polycube": 0o750} {
		if info, err := os.Stat(dest + dir); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
}
