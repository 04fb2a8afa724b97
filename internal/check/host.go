// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kernel settings and host properties that cost time or impose limits.

// setting reads a number from a file below /proc/sys.
func setting(m Machine, name string) (int, error) {
	text, err := m.Text("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// fromSetting returns the finding for a setting that may not exist.
func fromSetting(m Machine, what, name string, judge func(int) []Finding) []Finding {
	n, err := setting(m, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one(what, OK, "the kernel has no "+name, "")
	case err != nil:
		return one(what, Unknown, fmt.Sprintf("%s: %v", name, err), "")
	}
	return judge(n)
}

func jit(m Machine) []Finding {
	const what = "JIT"
	on, err := m.Compiled()
	switch {
	case errors.Is(err, unix.EPERM):
		return one(what, Unknown, "no permission to query the kernel", "run it as root")
	case err != nil:
		return one(what, Unknown, err.Error(), "")
	case !on:
		return one(what, Slower, "off: programs are interpreted, which is several times slower",
			"sysctl -w net.core.bpf_jit_enable=1; or, without this setting, a kernel built with CONFIG_BPF_JIT=y")
	}
	return one(what, OK, "on", "")
}

func hardening(m Machine) []Finding {
	const what = "JIT hardening"
	n, err := setting(m, "net.core.bpf_jit_harden")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one(what, Note, "not visible in this network namespace", "")
	case errors.Is(err, fs.ErrPermission):
		return one(what, Unknown, "no permission", "run it as root")
	case err != nil:
		return one(what, Unknown, err.Error(), "")
	case n >= 2:
		return one(what, Slower, "for all programs: blinding constants costs time per packet", "sysctl -w net.core.bpf_jit_harden=1")
	}
	return one(what, OK, "not for root's programs", "")
}

func statistics(m Machine) []Finding {
	return fromSetting(m, "BPF statistics", "kernel.bpf_stats_enabled", func(n int) []Finding {
		if n != 0 {
			return one("BPF statistics", Slower, "on: each run of each program is timed", "sysctl -w kernel.bpf_stats_enabled=0")
		}
		return one("BPF statistics", OK, "off", "")
	})
}

func gracePeriods(m Machine) []Finding {
	const what = "grace periods"
	if text, err := m.Text("/sys/kernel/rcu_normal"); err == nil && text != "0" {
		return one(what, Slower, "rcu_normal is on: adding or removing a port takes tens of milliseconds", "echo 0 > /sys/kernel/rcu_normal, unless this is a real-time system")
	}
	if _, err := m.Text("/sys/kernel/rcu_expedited"); err != nil {
		return one(what, Slower, "cannot be shortened: adding or removing a port takes tens of milliseconds", "mount /sys, writable")
	}
	return one(what, OK, "shortened during changes", "")
}

// costly are the marks of mitigations that cost time per packet: for indirect calls and returns in the kernel.
var costly = []string{"Retpoline", "IBRS", "Safe RET", "untrained", "unret"}

func mitigations(m Machine) []Finding {
	const what = "mitigations"
	var slow []string
	for _, path := range m.Glob("/sys/devices/system/cpu/vulnerabilities/*") {
		text, err := m.Text(path)
		if err == nil && slices.ContainsFunc(costly, func(mark string) bool {
			return strings.HasPrefix(text, "Mitigation:") && strings.Contains(text, mark)
		}) {
			slow = append(slow, filepath.Base(path))
		}
	}
	if len(slow) > 0 {
		return one(what, Slower, "for "+strings.Join(slow, ", ")+": indirect calls are slower, and each packet makes several",
			"none if untrusted programs run on the machine; otherwise boot with mitigations=off")
	}
	return one(what, OK, "no mitigations that cost time per packet", "")
}

func clock(m Machine) []Finding {
	const what = "clock"
	source, err := m.Text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	switch {
	case err != nil:
		return one(what, Unknown, err.Error(), "")
	case source == "hpet" || source == "acpi_pm" || source == "jiffies" || source == "refined-jiffies":
		return one(what, Slower, source+": each reading takes a microsecond, and a slow-path packet needs two",
			"use tsc or the hypervisor's clock, in /sys/devices/system/clocksource/clocksource0/current_clocksource")
	}
	return one(what, OK, source, "")
}

func processors(m Machine) []Finding {
	n := m.CPUs()
	if n == 1 {
		return one("processors", Note, "1: packets, slow path and API share it", "")
	}
	return one("processors", OK, strconv.Itoa(n), "")
}

// wantMemory is the memory of a daemon with some hundred cubes, in MB.
const wantMemory = 512

func memory(m Machine) []Finding {
	const what = "memory"
	text, err := m.Text("/proc/meminfo")
	if err != nil {
		return one(what, Unknown, err.Error(), "")
	}
	for _, line := range strings.Split(text, "\n") {
		var kb int
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kb); n != 1 {
			continue
		}
		if kb/1024 < wantMemory {
			return one(what, Note, fmt.Sprintf("%d MB available: enough for some cubes, but not for hundreds", kb/1024), "")
		}
		return one(what, OK, fmt.Sprintf("%d MB available", kb/1024), "")
	}
	return one(what, Unknown, "/proc/meminfo has no MemAvailable", "")
}

// wantFiles is the limit that the daemon sets.
const wantFiles = 65536

func files(m Machine) []Finding {
	const what = "open files"
	n, err := m.FileLimit()
	switch {
	case err != nil:
		return one(what, Unknown, err.Error(), "")
	case n < wantFiles:
		return one(what, Note, fmt.Sprintf("limit %d: too few for thousands of cubes and ports", n), fmt.Sprintf("ulimit -Hn %d, or LimitNOFILE= in the unit", wantFiles))
	}
	return one(what, OK, fmt.Sprintf("limit %d", n), "")
}

// groupMagic are the file systems of control groups, versions 1 and 2, and the tmpfs that contains those of version 1.
var groupMagic = []int64{0x27e0eb, 0x63677270, 0x01021994}

func groups(m Machine) []Finding {
	const what = "control groups"
	if magic, err := m.FileSystem("/sys/fs/cgroup"); err != nil || !slices.Contains(groupMagic, magic) {
		return one(what, Note, "none: external services are limited one process at a time", "mount -t cgroup2 cgroup2 /sys/fs/cgroup")
	}
	return one(what, OK, "mounted at /sys/fs/cgroup", "")
}

// routing finds settings that make the kernel's stack drop packets that a cube passes to it.
func routing(m Machine) []Finding {
	const what = "stack"
	var notes []string
	if n, err := setting(m, "net.ipv4.conf.all.rp_filter"); err == nil && n == 1 {
		notes = append(notes, "rp_filter is strict: packets that a cube passes to the stack are dropped unless they arrive by the netdev of the route back")
	}
	if n, err := setting(m, "net.ipv4.ip_forward"); err == nil && n == 0 {
		notes = append(notes, "ip_forward is off: the stack does not forward packets that cubes pass to it; forwarding by cubes is not affected")
	}
	if len(notes) > 0 {
		return one(what, Note, strings.Join(notes, "; "), "")
	}
	return one(what, OK, "ip_forward is on, rp_filter is not strict", "")
}

func tools(m Machine) []Finding {
	const what = "tcpdump"
	path, err := m.Program("tcpdump")
	if err != nil {
		return one(what, Note, "not installed: trace and capture accept no filters", "apt install tcpdump, or your distribution's package")
	}
	return one(what, OK, path, "")
}

// library is the libyang version of the process: it would not have started without one.
func library(m Machine) []Finding {
	const what = "libyang"
	text, err := m.Text("/proc/self/maps")
	if err != nil {
		return one(what, Unknown, err.Error(), "")
	}
	for _, line := range strings.Split(text, "\n") {
		if i := strings.IndexByte(line, '/'); i >= 0 && strings.HasPrefix(filepath.Base(line[i:]), "libyang.so") {
			return one(what, OK, line[i:], "")
		}
	}
	return one(what, OK, "built in", "")
}
