// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/trace"
)

// boolGauge is a boolean gauge.
func boolGauge(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// put writes a sample of one of the daemon's own families.
func (e *encoder) put(name string, value float64, labels ...string) {
	e.sample(index[name], value, labels...)
}

// writeCubes writes the metrics of cubes, ports and packets.
func (e *Exporter) writeCubes(enc *encoder, f scrapeData) {
	enc.put("polycube_build_info", 1, e.Version)
	for _, info := range e.Topology.Services() {
		enc.put("polycube_cubes", float64(f.services[info.Name]), info.Name)
	}
	for _, c := range f.cubes {
		enc.put("polycube_cube_healthy", boolGauge(c.Trouble == ""), c.Name, c.Service)
	}
	enc.put("polycube_configuration_revision", float64(e.Topology.Revision()))
	left := 0.0
	if t := e.Topology.Trial(); t != nil {
		left = t.Left().Seconds()
	}
	enc.put("polycube_trial_seconds_left", left)
	f.eachPort(func(c *topology.CubeNumbers, p *topology.PortNumbers) {
		enc.put("polycube_port_packets_total", float64(p.RxPackets), c.Name, "rx", p.Name)
		enc.put("polycube_port_packets_total", float64(p.TxPackets), c.Name, "tx", p.Name)
	})
	f.eachPort(func(c *topology.CubeNumbers, p *topology.PortNumbers) {
		enc.put("polycube_port_bytes_total", float64(p.RxBytes), c.Name, "rx", p.Name)
		enc.put("polycube_port_bytes_total", float64(p.TxBytes), c.Name, "tx", p.Name)
	})
	f.eachPort(func(c *topology.CubeNumbers, p *topology.PortNumbers) {
		enc.put("polycube_port_up", boolGauge(p.Up), c.Name, p.Name)
	})
	for _, n := range f.netdevs {
		enc.put("polycube_netdev_up", boolGauge(n.Up), n.Name)
	}
	for _, n := range f.netdevs {
		enc.put("polycube_netdev_carrier", boolGauge(n.Carrier), n.Name)
	}
	e.writeFates(enc, f)
}

func (f scrapeData) eachPort(do func(*topology.CubeNumbers, *topology.PortNumbers)) {
	for i := range f.cubes {
		for j := range f.cubes[i].Ports {
			do(&f.cubes[i], &f.cubes[i].Ports[j])
		}
	}
}

// writeFates writes the fates of packets: drops, and others.
func (e *Exporter) writeFates(enc *encoder, f scrapeData) {
	for _, c := range f.cubes {
		for _, fate := range c.Fates {
			if !fate.Drop {
				enc.put("polycube_packets_total", float64(fate.Packets), c.Name, fate.Name)
			}
		}
	}
	drops := func(name string, fates []datapath.Fate) {
		for _, fate := range fates {
			if fate.Drop {
				enc.put("polycube_drops_total", float64(fate.Packets), name, fate.Name)
			}
		}
	}
	for _, c := range f.cubes {
		drops(c.Name, c.Fates)
	}
	if fates, err := e.Topology.FrameworkFates(); err == nil {
		drops(trace.Framework, fates)
	}
}

// writePrograms writes the metrics of programs and maps.
func (e *Exporter) writePrograms(enc *encoder, f scrapeData) {
	if e.Linker != nil {
		e.writeLinker(enc)
	}
	each := func(do func(cube string, u *datapath.MapUsage)) {
		for _, c := range f.cubes {
			for i := range f.maps[c.Name] {
				do(c.Name, &f.maps[c.Name][i])
			}
		}
	}
	each(func(cube string, u *datapath.MapUsage) {
		if u.Entries >= 0 {
			enc.put("polycube_map_entries", float64(u.Entries), cube, u.Name)
		}
	})
	each(func(cube string, u *datapath.MapUsage) {
		enc.put("polycube_map_max_entries", float64(u.MaxEntries), cube, u.Name)
	})
	each(func(cube string, u *datapath.MapUsage) {
		if u.Bytes > 0 {
			enc.put("polycube_map_memory_bytes", float64(u.Bytes), cube, u.Name)
		}
	})
	each(func(cube string, u *datapath.MapUsage) {
		if u.Ring != nil {
			enc.put("polycube_ring_packets_total", float64(u.Ring.Lost), cube, "lost", u.Name)
			enc.put("polycube_ring_packets_total", float64(u.Ring.Written), cube, "written", u.Name)
		}
	})
	each(func(cube string, u *datapath.MapUsage) {
		if u.Ring != nil {
			enc.put("polycube_ring_waiting_bytes", float64(u.Ring.Waiting), cube, u.Name)
		}
	})
	enc.put("polycube_map_oldest_look_seconds", f.oldest.Seconds())
}

func (e *Exporter) writeLinker(enc *encoder) {
	segments := e.Linker.Segments()
	for _, s := range segments {
		enc.put("polycube_segment_cubes", float64(s.Cubes), s.First)
	}
	for _, s := range segments {
		enc.put("polycube_segment_inlined", boolGauge(s.Mode == "inline"), s.First)
	}
	for _, s := range segments {
		enc.put("polycube_segment_instructions", float64(s.Instructions), s.First)
	}
	for _, s := range segments {
		enc.put("polycube_segment_verified_instructions", float64(s.Verified), s.First)
	}
	for _, s := range segments {
		enc.put("polycube_segment_stack_bytes", float64(s.Stack), s.First)
	}
	for _, s := range segments {
		enc.put("polycube_segment_maps", float64(s.Maps), s.First)
	}
	a := e.Linker.Activity()
	for _, mode := range sorted(a.Relinks) {
		enc.histogram(index["polycube_relink_duration_seconds"], a.Relinks[mode], mode)
	}
	enc.counts("polycube_relink_failures_total", a.Failures)
}

// counts writes counters by one label.
func (e *encoder) counts(name string, by map[string]uint64) {
	for _, label := range sorted(by) {
		e.put(name, float64(by[label]), label)
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// writeSlowPath writes the metrics of the slow path.
func (e *Exporter) writeSlowPath(enc *encoder, f scrapeData) {
	a := e.Topology.Activity()
	bad := map[string]uint64{"stray": a.Strays}
	if e.SlowPath != nil {
		if l, ok := e.SlowPath(); ok {
			enc.counts("polycube_slowpath_records_total", map[string]uint64{
				"packet": l.Packets, "flood": l.Floods, "log": l.Logs, "notice": l.Notices, "step": l.Steps})
			bad["stale"], bad["malformed"] = l.Stale, l.Malformed
			enc.put("polycube_slowpath_ring_bytes", float64(l.Size))
			enc.put("polycube_slowpath_ring_used_bytes", float64(l.Used))
			enc.put("polycube_slowpath_ring_resets_total", float64(l.Damaged))
			enc.put("polycube_slowpath_sleeps_total", float64(l.Sleeps))
		}
	}
	enc.counts("polycube_slowpath_bad_records_total", bad)
	enc.histogram(index["polycube_slowpath_handler_duration_seconds"], a.Handlers)
	enc.histogram(index["polycube_slowpath_wait_seconds"], a.Waits)
	for _, c := range f.cubes {
		enc.put("polycube_slowpath_waiting_packets", float64(c.Waiting), c.Name)
	}
	for _, c := range f.cubes {
		enc.put("polycube_slowpath_shed_total", float64(c.Shed), c.Name)
	}
	enc.histogram(index["polycube_transaction_duration_seconds"], a.Transactions)
	enc.histogram(index["polycube_transaction_group_changes"], a.Groups)
	enc.counts("polycube_transaction_failures_total", a.Failures)
}

// writeDaemon writes the metrics of the store, the API and the events.
func (e *Exporter) writeDaemon(enc *encoder) {
	if e.Store != nil {
		s := e.Store.Stats()
		enc.histogram(index["polycube_store_commit_duration_seconds"], s.Commits)
		enc.put("polycube_store_commit_failures_total", float64(s.Failures))
		enc.put("polycube_store_journal_bytes", float64(s.JournalBytes))
		enc.put("polycube_store_journal_records", float64(s.JournalRecords))
		enc.put("polycube_store_state_bytes", float64(s.StateBytes))
		enc.put("polycube_store_snapshots_total", float64(s.Snapshots))
		enc.put("polycube_store_snapshot_failures_total", float64(s.SnapshotFailures))
		enc.put("polycube_store_healthy", boolGauge(s.Healthy()))
	}
	e.Requests.write(enc)
	if e.Events != nil {
		enc.put("polycube_events_total", float64(e.Events.Total()))
	}
	if e.Subscribers != nil {
		enc.put("polycube_event_subscribers", float64(e.Subscribers()))
	}
	enc.put("polycube_scrape_duration_seconds", time.Duration(e.took.Load()).Seconds())
}
