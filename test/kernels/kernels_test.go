// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/kernels/guest"
)

func TestVersionsAreInTheirOrder(t *testing.T) {
	sorted := []string{"6.1.176-1", "6.1.192-2", "6.12.95-1~bpo12+1", "6.12.117-1~deb12u1", "7.3.4-1"}
	got := slices.Clone(sorted)
	slices.Reverse(got)
	slices.SortFunc(got, compareVersions)
	if !slices.Equal(got, sorted) {
		t.Errorf("got %v, want %v", got, sorted)
	}
	if s := (Kernel{Release: "6.12.117+deb12-cloud-amd64"}).Series(); s != "6.12" {
		t.Errorf("series %s", s)
	}
}

func TestPackagesStandForKernels(t *testing.T) {
	const text = "Package: linux-image-cloud-amd64\nVersion: 6.1.192-2\nDepends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2)\nDescription: x\n\n" +
		"Package: linux-image-cloud-amd64\nDepends: linux-image-6.12.95+deb12-cloud-amd64 (= 6.12.95-1~bpo12+1)\n"
	got := standsFor.FindAllStringSubmatch(text, -1)
	if len(got) != 2 || got[0][1] != "6.1.0-56-cloud-amd64" || got[1][2] != "6.12.95-1~bpo12+1" {
		t.Errorf("%q", got)
	}
}

// TestTheRAMDiskHasTheModulesInTheirOrder: cpio reads it.
func TestTheRAMDiskHasTheModulesInTheirOrder(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skipf("needs cpio: %v", err)
	}
	dir := t.TempDir()
	var modules []string
	for name, content := range map[string]string{"init": "first", "b.ko": "one", "a.ko": "another"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if name != "init" {
			modules = append(modules, file)
		}
	}
	slices.Sort(modules)
	slices.Reverse(modules)
	disk, err := initrd(filepath.Join(dir, "init"), modules)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	cmd := exec.Command("cpio", "-i", "--quiet", "-d", "*.ko", "init", "modules.load")
	cmd.Dir, cmd.Stdin = out, bytes.NewReader(disk)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for name, want := range map[string]string{"init": "first", "b.ko": "one", "a.ko": "another", "modules.load": "/b.ko\n/a.ko\n"} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestDependenciesComeBeforeAModule(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"modules.dep": "x/virtio_blk.ko: x/virtio.ko x/ring.ko\nx/virtio.ko: x/ring.ko\nx/ring.ko:\nx/other.ko:\nx/virtio_pci.ko: x/virtio.ko x/ring.ko\n",
		"x/ring.ko":   "r", "x/virtio.ko": "v", "x/virtio_blk.ko": "b", "x/virtio_pci.ko": "p", "x/other.ko": "o",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := keepEarly(t.Context(), dir, out); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(out, "early")); err != nil || string(got) != "ring.ko\nvirtio.ko\nvirtio_pci.ko\nvirtio_blk.ko" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTheCacheHasAnEntryWholeOrNotAtAll: an incomplete entry is created again, and an existing one is not.
func TestTheCacheHasAnEntryWholeOrNotAtAll(t *testing.T) {
	c, err := OpenCache(t.TempDir(), "amd64", &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	fill := func(err error) func(string) error {
		return func(dir string) error {
			made++
			return errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600), err)
		}
	}
	if _, err := c.once("entry", fill(errors.New("half way")), "file"); err == nil || !strings.Contains(err.Error(), "half way") {
		t.Errorf("an entry that is not whole: %v", err)
	}
	for range 2 {
		file, err := c.once("entry", fill(nil), "file")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if made != 2 {
		t.Errorf("made %d times, want 2", made)
	}
}

func TestStepsSkipWhatHoldsTheClockToALimit(t *testing.T) {
	s := Job{Package: "cubes/nat", Tests: []string{"TestA", "TestB"}, Skip: map[string]string{"TestC": "it is long"}, Within: 10 * time.Minute}.step()
	line := strings.Join(s.Args, " ")
	for _, want := range []string{guest.Tree + "/.guest/tests/nat.test", "-test.skip=^(TestTimed.*|TestC)$", "-test.run=^(TestA|TestB)$", "-test.timeout=9m0s"} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
	if s.Dir != guest.Tree+"/cubes/nat" || s.Within != 10*time.Minute {
		t.Errorf("%+v", s)
	}
}

// TestNamedTestsAreThere: every name in the lists is that of an existing test, so that a run of hours does not fail
// because of a typo.
func TestNamedTestsAreThere(t *testing.T) {
	for _, j := range slices.Concat(Short(), slices.Concat(Long()...)) {
		names := slices.Clone(j.Tests)
		for name := range j.Skip {
			names = append(names, name)
		}
		for _, name := range names {
			if out, err := exec.Command("grep", "-rqw", "func "+name, "--include=*_test.go", filepath.Join("../..", j.Package)).CombinedOutput(); err != nil {
				t.Errorf("%s has no %s: %v: %s", j.Package, name, err, out)
			}
		}
	}
}

func TestConsolesThatComplain(t *testing.T) {
	for text, bad := range map[string]bool{
		"[1.0] clocksource: refined-jiffies\nreboot: Restarting system\n":     false,
		"[2.0] BUG: kernel NULL pointer dereference\n[2.1] more\n":            true,
		"[2.0] Kernel panic - not syncing: Attempted to kill init!\n":         true,
		"[3.0] WARNING: CPU: 0 PID: 1 at kernel/bpf/verifier.c:1 check+0x1\n": true,
		"guest: mount /dev/vda at /disk: no such device\n":                    true,
	} {
		m := machine{dir: t.TempDir()}
		if err := os.WriteFile(m.path("console"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.verdict(t.Context(), true, nil); (err != nil) != bad {
			t.Errorf("%q: %v", text, err)
		}
		if err := m.verdict(t.Context(), false, nil); err == nil {
			t.Errorf("%q: all is well, and the plan had not ended", text)
		}
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("stopped after 1m"))
		if err := m.verdict(ended, true, nil); err == nil || !bad && !strings.Contains(err.Error(), "stopped after 1m") {
			t.Errorf("%q: stopped, and %v", text, err)
		}
	}
}

func TestMachinesOfAKernelMakeOneReport(t *testing.T) {
	one := &Outcome{Job: "a", Test: "TestA", Result: passed}
	two := &Outcome{Job: "b", Test: "TestB", Result: failed}
	k := Kernel{Release: "6.1.0-1"}
	got := joined([]Report{
		{k, []*Outcome{one}, nil, []string{"no module x"}, map[string]string{"a": "said"}, 3 * time.Minute, 3 * time.Minute},
		{k, []*Outcome{two}, []string{"b: TestB: failed"}, []string{"no module x", "no module y"}, map[string]string{"b": "told"}, 5 * time.Minute, 4 * time.Minute},
	})
	want := Report{k, []*Outcome{one, two}, []string{"b: TestB: failed"}, []string{"no module x", "no module y"}, map[string]string{"a": "said", "b": "told"}, 5 * time.Minute, 7 * time.Minute}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}
