// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/topology"
)

// GET /status: the health of the daemon and its cubes on one screen, with problems and remedies.

// Severities of problems, which are also the overall status.
const (
	severityOK       = "ok"
	severityWarning  = "warning"
	severityCritical = "critical"
)

// MaxTroubles limits each list of the status; the rest is only counted.
const MaxTroubles = 20

// trouble is a problem.
type trouble struct {
	Severity string `json:"severity"`
	// Where is a cube, a port, a netdev or a part of the daemon.
	Where string `json:"where"`
	What  string `json:"what"`
	// Remedy says what to do, if What does not.
	Remedy string `json:"remedy,omitempty"`
}

// StatusView is the response of /status.
type StatusView struct {
	Status   string    `json:"status"`
	Troubles []trouble `json:"troubles"`
	// More is how many problems are not listed.
	More     int           `json:"more-troubles"`
	Daemon   DaemonView    `json:"daemon"`
	Cubes    cubesView     `json:"cubes"`
	Ports    portsView     `json:"ports"`
	Programs programsView  `json:"programs"`
	SlowPath slowPathView  `json:"slow-path"`
	Drops    []dropView    `json:"drops"`
	Store    *storeView    `json:"store,omitempty"`
	Services []serviceView `json:"services"`
}

type cubesView struct {
	Revision uint64 `json:"revision"`
	Total    int    `json:"total"`
	// Degraded cubes have code that is no longer called; Broken ones could not be restored, and Held of these still
	// forward.
	Degraded int `json:"degraded"`
	Broken   int `json:"broken"`
	Held     int `json:"held"`
}

type portsView struct {
	Total int `json:"total"`
	Up    int `json:"up"`
	// Down ports have a peer and do not work, Free ones have none.
	Down int `json:"down"`
	Free int `json:"free"`
}

type programsView struct {
	Total  int `json:"total"`
	Inline int `json:"inline"`
	Call   int `json:"call"`
	// Reasons say why each program in call mode is not inlined.
	Reasons []programView `json:"reasons"`
}

type programView struct {
	Cube   string `json:"cube"`
	Cubes  int    `json:"cubes"`
	Reason string `json:"reason"`
}

type slowPathView struct {
	Packets     uint64 `json:"packets"`
	RingBytes   uint64 `json:"ring-bytes"`
	RingUsed    uint64 `json:"ring-used-bytes"`
	Waiting     int    `json:"waiting"`
	Shed        uint64 `json:"shed"`
	LostInRing  uint64 `json:"lost-in-ring"`
	ShedByCubes uint64 `json:"shed-by-cubes"`
}

// dropView is a drop reason with packets in the last seconds.
type dropView struct {
	Cube      string `json:"cube"`
	Reason    string `json:"reason"`
	PerSecond uint64 `json:"per-second"`
	Packets   uint64 `json:"packets"`
}

type storeView struct {
	JournalBytes   int64 `json:"journal-bytes"`
	JournalRecords int   `json:"journal-records"`
	StateBytes     int64 `json:"state-bytes"`
	// Snapshots counts those since the start, the last one at LastSnapshot.
	Snapshots    uint64     `json:"snapshots"`
	LastSnapshot *time.Time `json:"last-snapshot,omitempty"`
	Failures     uint64     `json:"commit-failures"`
	Repaired     []string   `json:"repaired"`
}

// serviceView is a service that has cubes, or is external.
type serviceView struct {
	Name  string `json:"name"`
	Cubes int    `json:"cubes"`
	// State is builtin, running or lost; Error says why it is lost.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// ServeStatus handles /status.
func (o *Observer) ServeStatus(w http.ResponseWriter, r *http.Request, rest []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return o.help.Show(w, r, rest)
	}
	return o.out.JSON(w, r, http.StatusOK, o.status())
}

// status collects everything.
func (o *Observer) status() StatusView {
	v := StatusView{Daemon: o.daemonView(), Drops: []dropView{}, Services: []serviceView{}, Programs: programsView{Reasons: []programView{}}}
	numbers := o.manager.Numbers()
	all := slices.Concat(v.Cubes.collect(numbers), v.Ports.collect(numbers), o.storeTroubles(&v), o.pinTroubles(), o.tlsTroubles())
	v.Cubes.Revision = o.manager.Revision()
	o.collectPrograms(&v)
	all = append(all, o.collectPackets(&v, numbers)...)
	all = append(all, o.serviceTroubles()...)
	o.collectServices(&v, numbers)
	v.setStatus(all)
	return v
}

// collectServices lists the services that have cubes or are external.
func (o *Observer) collectServices(v *StatusView, numbers []topology.CubeNumbers) {
	cubes := map[string]int{}
	for _, c := range numbers {
		cubes[c.Service]++
	}
	external := map[string]bool{}
	for _, st := range o.manager.ServiceStates() {
		external[st.Name] = true
		one := serviceView{Name: st.Name, Cubes: cubes[st.Name], State: "running"}
		if !st.Running {
			one.State, one.Error = "lost", st.Error
		}
		v.Services = append(v.Services, one)
	}
	for _, info := range o.manager.Services() {
		if n := cubes[info.Name]; n > 0 && !external[info.Name] {
			v.Services = append(v.Services, serviceView{Name: info.Name, Cubes: n, State: "builtin"})
		}
	}
}

// setStatus lists the problems, the worst first, and sets the overall status.
func (v *StatusView) setStatus(all []trouble) {
	rank := map[string]int{severityCritical: 0, severityWarning: 1}
	slices.SortStableFunc(all, func(a, b trouble) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	v.Status = severityOK
	if len(all) > 0 {
		v.Status = all[0].Severity
	}
	v.Troubles = append([]trouble{}, all[:min(len(all), MaxTroubles)]...)
	v.More = len(all) - len(v.Troubles)
}

// remedyOf says what to do about a degraded cube: nothing, if its external service will return.
func remedyOf(trouble string) string {
	if strings.HasPrefix(trouble, "service ") || strings.HasPrefix(trouble, "its service ") {
		return "its service takes it over again as soon as it can"
	}
	return "the log has the details; delete the cube and create it again"
}

// collect counts cubes and finds those with problems.
func (v *cubesView) collect(numbers []topology.CubeNumbers) []trouble {
	var out []trouble
	for _, c := range numbers {
		v.Total++
		switch {
		case c.Broken:
			v.Broken++
			if c.Status.Mode != "" || len(c.Ports) > 0 {
				v.Held++
			}
			out = append(out, trouble{Severity: severityCritical, Where: c.Name, What: c.Trouble})
		case c.Trouble != "":
			v.Degraded++
			out = append(out, trouble{Severity: severityCritical, Where: c.Name, What: "degraded, forwarding continues without its control plane: " + c.Trouble,
				Remedy: remedyOf(c.Trouble)})
		}
	}
	return out
}

// collect counts ports and finds those that do not work, or lose something.
func (v *portsView) collect(numbers []topology.CubeNumbers) []trouble {
	var out []trouble
	for _, c := range numbers {
		for _, p := range c.Ports {
			v.Total++
			switch {
			case p.Up:
				v.Up++
			case p.Reason != "":
				v.Down++
			default:
				v.Free++
			}
			if p.Reason != "" {
				state := "is DOWN: "
				if p.Up {
					state = "is UP, but "
				}
				out = append(out, trouble{Severity: severityWarning, Where: c.Name + ":" + p.Name, What: state + p.Reason})
			}
		}
	}
	return out
}

// collectPrograms counts programs by mode. Call mode costs nanoseconds but works, so it is not a problem.
func (o *Observer) collectPrograms(v *StatusView) {
	if o.observed.Linker == nil {
		return
	}
	for _, p := range o.observed.Linker.Segments() {
		v.Programs.Total++
		if p.Mode == "inline" {
			v.Programs.Inline++
			continue
		}
		v.Programs.Call++
		if len(v.Programs.Reasons) < MaxTroubles {
			v.Programs.Reasons = append(v.Programs.Reasons, programView{p.First, p.Cubes, p.Reason})
		}
	}
}

// collectPackets reads the counters of the slow path and the drops.
func (o *Observer) collectPackets(v *StatusView, numbers []topology.CubeNumbers) []trouble {
	var out []trouble
	for _, c := range numbers {
		v.SlowPath.Waiting += c.Waiting
		v.SlowPath.ShedByCubes += c.Shed
		for _, f := range c.Fates {
			if f.Name == "slowpath-shed" {
				v.SlowPath.Shed += f.Packets
			}
		}
	}
	if o.observed.SlowPath != nil {
		if l, ok := o.observed.SlowPath(); ok {
			v.SlowPath.Packets, v.SlowPath.RingBytes, v.SlowPath.RingUsed = l.Packets, l.Size, l.Used
			v.SlowPath.LostInRing = l.Stale + l.Malformed
		}
	}
	drops, err := o.drops.Report("")
	if err != nil {
		return out
	}
	for _, d := range drops {
		if d.PerSecond == 0 {
			continue
		}
		v.Drops = append(v.Drops, dropView{d.Cube, d.Reason, d.PerSecond, d.Packets})
		if d.Reason == "slowpath-shed" {
			out = append(out, trouble{Severity: severityWarning, Where: d.Cube,
				What:   fmt.Sprintf("sends more packets to user space than its control plane accepts, %d per second are dropped", d.PerSecond),
				Remedy: "use polycubectl capture or trace to see which packets"})
		}
	}
	slices.SortStableFunc(v.Drops, func(a, b dropView) int { return cmp.Compare(b.PerSecond, a.PerSecond) })
	v.Drops = v.Drops[:min(len(v.Drops), 10)]
	return out
}

// pinTroubles checks where maps and programs are pinned.
func (o *Observer) pinTroubles() []trouble {
	if o.observed.Pins == nil {
		return nil
	}
	err := o.observed.Pins()
	if err == nil {
		return nil
	}
	t := trouble{Severity: severityCritical, Where: "bpffs", What: err.Error()}
	var known interface{ Remedy() string }
	if errors.As(err, &known) {
		t.What += ": forwarding continues, but changes that need new maps or programs are refused"
		t.Remedy = known.Remedy()
	} else {
		t.What += ": forwarding continues, but changes are refused, and the learned state of cubes is lost at the next start"
		t.Remedy = "mount a BPF file system there again, and restart polycubed when you can tolerate packet loss"
	}
	return []trouble{t}
}

// tlsTroubles reports the TLS files that could not be read.
func (o *Observer) tlsTroubles() []trouble {
	if o.tls == nil {
		return nil
	}
	var out []trouble
	for _, err := range o.tls.Faults() {
		out = append(out, trouble{Severity: severityCritical, Where: "TLS", What: err.Error() + ": the previous content of the file stays in effect",
			Remedy: "correct the file: it is read again when it changes"})
	}
	return out
}

// storeTroubles checks the store.
func (o *Observer) storeTroubles(v *StatusView) []trouble {
	if o.observed.Store == nil {
		return nil
	}
	st := o.observed.Store.Stats()
	v.Store = &storeView{JournalBytes: st.JournalBytes, JournalRecords: st.JournalRecords, StateBytes: st.StateBytes,
		Snapshots: st.Snapshots, Failures: st.Failures, Repaired: append([]string{}, st.Repaired...)}
	if !st.SnapshotAt.IsZero() {
		at := st.SnapshotAt.UTC().Truncate(time.Millisecond)
		v.Store.LastSnapshot = &at
	}
	var out []trouble
	add := func(severity, what, remedy string) {
		out = append(out, trouble{Severity: severity, Where: "store", What: what, Remedy: remedy})
	}
	if st.Broken {
		add(severityCritical, "the disk state is unknown after a write error, changes are refused", "check the disk: every change tries to write again")
	}
	switch {
	case st.Missing != "":
		add(severityCritical, strings.TrimPrefix(st.Missing, "store: ")+": the next start would not find the configuration",
			"restore the file; or remove what replaced it and change something: the next change writes the whole configuration")
	case st.Full:
		add(severityCritical, "the disk is full, changes will be refused", "free disk space")
	case st.Refusal != "" && !st.Broken:
		add(severityCritical, "the last change was refused because it could not be written to disk: "+st.Refusal, "check the disk: every change tries to write again")
	}
	if st.SnapshotFailures > 0 {
		add(severityWarning, fmt.Sprintf("%d snapshots failed, the journal keeps growing", st.SnapshotFailures), "free disk space")
	}
	for _, what := range st.Repaired {
		add(severityWarning, "damage found at start: "+what, "compare the configuration with a backup; the next start does not report this again")
	}
	return out
}

// ServiceStatus is the state of an external service.
func ServiceStatus(st topology.ServiceState) string {
	if st.Running {
		return "running"
	}
	return "lost"
}

// serviceTroubles lists the services that are lost.
func (o *Observer) serviceTroubles() []trouble {
	var out []trouble
	for _, st := range o.manager.ServiceStates() {
		if !st.Running {
			out = append(out, trouble{Severity: severityCritical, Where: "service " + st.Name, What: "lost: " + st.Error,
				Remedy: "its cubes continue to forward, and the service takes them over when it returns"})
		}
	}
	return out
}
