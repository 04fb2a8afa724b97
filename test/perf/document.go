// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/perf/report"
)

// ChartName is the file with the chart of the first page, beside the document.
const ChartName = "performance.svg"

// Document is docs/performance.md, and the chart on its first page: the results, the machine, and the command.
func (r *Run) Document(args []string) (text, chart string) {
	var b strings.Builder
	b.WriteString("# Performance\n\n")
	sentences, chart := r.firstPage()
	if chart != "" {
		fmt.Fprintf(&b, "![Ratios to the kernel's own forwarding](%s)\n\n%s\n", ChartName, sentences)
		b.WriteString("The tables below say how each was measured, and what does not reach its target.\n\n## How it was measured\n\n")
	}
	b.WriteString(documentHead + "\n")
	fmt.Fprintf(&b, "Measured on %s by `%s`.\n\n", time.Now().UTC().Format(time.DateOnly),
		strings.TrimSpace("go run ./test/perf/cmd/bench "+strings.Join(args, " ")))
	b.WriteString(machine().Markdown())
	b.WriteString("\n## Targets\n\n")
	b.WriteString(report.Checks(r.Checks).Markdown())
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.Title, s.Text)
		for _, t := range s.Tables {
			fmt.Fprintf(&b, "\n%s", t.Markdown())
		}
	}
	b.WriteString("\n" + documentTail)
	return b.String(), chart
}

// GroupDocument is the document with the section of the run's group, written anew.
func (r *Run) GroupDocument(old string, args []string) string {
	var b strings.Builder
	command := "make bench BENCH=" + r.Group
	if len(args) > 0 {
		command += fmt.Sprintf(" BENCH_FLAGS='%s'", strings.Join(args, " "))
	}
	begin, end := groupMarks(r.Group)
	fmt.Fprintf(&b, "%s\n## Group %s\n\nMeasured on %s by `%s`, apart from all above, and read in the same way.\n\n",
		begin, r.Group, time.Now().UTC().Format(time.DateOnly), command)
	b.WriteString(machine().Markdown())
	fmt.Fprintf(&b, "\n### Goals of group %s\n\n%d of %d are missed.\n\n", r.Group, report.Misses(r.Checks), len(r.Checks))
	b.WriteString(report.Checks(r.Checks).Markdown())
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.Title, s.Text)
		for _, t := range s.Tables {
			fmt.Fprintf(&b, "\n%s", t.Markdown())
		}
	}
	b.WriteString(end + "\n")
	rest := strings.TrimRight(strings.Replace(old, groupSection(old, r.Group), "", 1), "\n")
	return rest + "\n\n" + b.String()
}

func groupMarks(group string) (begin, end string) {
	return fmt.Sprintf("<!-- group %s -->", group), fmt.Sprintf("<!-- end of group %s -->", group)
}

// groupSection is the section of a group in a document, or "".
func groupSection(document, group string) string {
	begin, end := groupMarks(group)
	_, text, found := strings.Cut(document, begin)
	text, _, ended := strings.Cut(text, end+"\n")
	if !found || !ended {
		return ""
	}
	return begin + text + end + "\n"
}

// WithGroups is a new document with the sections of groups in the old one, which only runs of the groups write.
func WithGroups(document, old string) string {
	for _, group := range GroupNames() {
		if s := groupSection(old, group); s != "" {
			document = strings.TrimRight(document, "\n") + "\n\n" + s
		}
	}
	return document
}

const documentHead = `What Polycube costs, compared with the kernel's own forwarding, measured in one run.
This file is written by ` + "`make bench`" + `; do not edit it.

How to read it: figures are medians over rounds, with minimum and maximum; in each round everything is measured once, in a
new random order, so that temporary disturbances of the machine affect everything alike. Compare figures within one table:
absolute values depend on this machine. Differences below 10 % are not significant.
`

const documentTail = `## Limitations of these figures

- One virtual machine with two CPUs, and veths instead of network cards: ratios are more portable than nanoseconds. On a card
  the driver's share differs, and several queues work in parallel.
- Frames of the minimum size: the cost of a packet, not of a byte.
- On veth an XDP program sees the frame before the kernel has allocated an skb for it, which is most of its advantage over TC
  and the bridge; at TC the skb has been allocated already.
- CPU mitigations slow down calls, indirect jumps and tail calls; with other mitigations the differences change.
- Every run of ` + "`BPF_PROG_TEST_RUN`" + ` runs with warm caches: a lower bound of a program's cost.
`

// machine lists the properties that figures depend on, and nothing that identifies the machine.
func machine() *report.Table {
	t := &report.Table{Columns: []string{"machine", ""}}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		t.Add("kernel", fmt.Sprintf("%s %s", unix.ByteSliceToString(u.Sysname[:]), kernelVersion(unix.ByteSliceToString(u.Release[:]))))
	}
	model, cpus := processor()
	t.Add("CPU", fmt.Sprintf("%d × %s", cpus, model))
	t.Add("BPF JIT", firstLine("/proc/sys/net/core/bpf_jit_enable")+", hardening "+firstLine("/proc/sys/net/core/bpf_jit_harden"))
	t.Add("Spectre v2", firstLine("/sys/devices/system/cpu/vulnerabilities/spectre_v2"))
	t.Add("load at the end", firstLine("/proc/loadavg"))
	return t
}

// kernelVersion is the release without a builder's suffix.
func kernelVersion(release string) string {
	version, _, _ := strings.Cut(release, "-")
	return version
}

func processor() (model string, cpus int) {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown", 0
	}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "processor":
			cpus++
		case "model name":
			model = strings.TrimSpace(value)
		}
	}
	return model, cpus
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	return line
}
