// SPDX-License-Identifier: Apache-2.0

package topology

// What a cube's code sees of the framework. Nothing here but a change of programs waits for a lock of the topology, so a
// cube may use it at any time, from its own goroutines too.

import (
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/world"
)

// cubeDatapath is what a cube's code asks of the data plane.
type cubeDatapath interface {
	// Map returns one of a cube's maps by its C name.
	Map(id datapath.CubeID, name string) (*ebpf.Map, error)
	// Inner says what the maps inside one of a cube's maps of maps are like.
	Inner(id datapath.CubeID, name string) (*ebpf.MapSpec, error)
	// SetFloods replaces sets of ports that a cube's programs flood to; only says that it has no others afterwards.
	SetFloods(id datapath.CubeID, sets map[uint32][]cube.FloodMember, only bool) error
	// Send puts a packet of the slow path into the fast path.
	Send(id datapath.CubeID, transparent bool, p *cube.PacketOut) error
}

// env implements cube.Env.
type env struct {
	name        string
	typ         cube.Type
	id          datapath.CubeID
	transparent bool
	uuid        string
	// takenOver says that the cube was there before its code: its maps may have entries.
	takenOver bool
	// degrade is the unit's.
	degrade func(reason string)
	// ownStation is the manager's.
	ownStation func(net.HardwareAddr) bool
	dp         cubeDatapath
	log        *slog.Logger
	level      *slog.LevelVar
	// ready is set before the first Commit: the maps exist.
	ready atomic.Bool
	ports atomic.Pointer[portTable]
	// programs and start are the unit's.
	programs programs
	start    func(d time.Duration, repeat bool, fn func()) (stop func())
}

// portTable translates between the names and the indexes of ports. While a transaction runs it holds the ports from
// before and after.
type portTable struct {
	index map[string]uint16
	name  map[uint16]string
}

func newPortTable(recs ...*world.Cube) *portTable {
	t := &portTable{index: map[string]uint16{}, name: map[uint16]string{}}
	for _, rec := range recs {
		if rec == nil {
			continue
		}
		for _, p := range rec.Ports {
			t.index[p.Name] = p.Index
			t.name[p.Index] = p.Name
		}
	}
	return t
}

func (e *env) Name() string         { return e.name }
func (e *env) Type() cube.Type      { return e.typ }
func (e *env) Logger() *slog.Logger { return e.log }

// What follows is for services that are not part of the daemon, which ask for it by interfaces of their own.

// UUID stays the same for the life of the cube.
func (e *env) UUID() string { return e.uuid }

// TakenOver says that the cube was there before its code.
func (e *env) TakenOver() bool { return e.takenOver }

// Degrade has the cube's code left alone from now on.
func (e *env) Degrade(reason string) { e.degrade(reason) }

func (e *env) Map(name string) (*ebpf.Map, error) {
	if !e.ready.Load() {
		return nil, fmt.Errorf("%s: map %s: maps exist from the first Commit on", e.name, name)
	}
	m, err := e.dp.Map(e.id, name)
	if err != nil {
		return nil, fmt.Errorf("%s: map %s: %w", e.name, name, err)
	}
	return m, nil
}

func (e *env) Inner(name string) (*ebpf.MapSpec, error) {
	spec, err := e.dp.Inner(e.id, name)
	if err != nil {
		return nil, fmt.Errorf("%s: map %s: %w", e.name, name, err)
	}
	return spec, nil
}

func (e *env) PortIndex(name string) (uint16, bool) {
	i, ok := e.ports.Load().index[name]
	return i, ok
}

func (e *env) PortName(index uint16) (string, bool) {
	n, ok := e.ports.Load().name[index]
	return n, ok
}

func (e *env) Send(p *cube.PacketOut) error {
	if !e.ready.Load() {
		return fmt.Errorf("%s: sending a packet: the cube is not in the fast path yet", e.name)
	}
	if err := e.dp.Send(e.id, e.transparent, p); err != nil {
		return fmt.Errorf("%s: sending a packet: %w", e.name, err)
	}
	return nil
}

// OwnStation implements cube.Host.
func (e *env) OwnStation(mac net.HardwareAddr) bool { return e.ownStation(mac) }

func (e *env) Programs() cube.Programs { return e.programs }
func (e *env) Floods() cube.Floods     { return floods{e} }

// floods implements cube.Floods.
type floods struct{ e *env }

func (f floods) Set(index uint32, members []cube.FloodMember) error {
	return f.SetAll(map[uint32][]cube.FloodMember{index: members})
}

func (f floods) SetAll(sets map[uint32][]cube.FloodMember) error { return f.set(sets, false) }
func (f floods) Reset(sets map[uint32][]cube.FloodMember) error  { return f.set(sets, true) }

func (f floods) set(sets map[uint32][]cube.FloodMember, only bool) error {
	if !f.e.ready.Load() {
		return fmt.Errorf("%s: sets of ports exist from the first Commit on", f.e.name)
	}
	if err := f.e.dp.SetFloods(f.e.id, sets, only); err != nil {
		return fmt.Errorf("%s: %w", f.e.name, err)
	}
	return nil
}

func (e *env) Every(d time.Duration, fn func()) (stop func()) { return e.start(d, true, fn) }
func (e *env) After(d time.Duration, fn func()) (stop func()) { return e.start(d, false, fn) }

// ports translates between the names and the indexes of the cube's ports.
func (u *unit) ports() *portTable { return u.env.ports.Load() }

func (u *unit) setPorts(t *portTable) { u.env.ports.Store(t) }

// environment is what the cube's code sees of the framework.
func (u *unit) environment() cube.Env { return u.env }

// portName is the name of a port.
func (u *unit) portName(index uint16) (string, bool) { return u.env.PortName(index) }

// logLevel is that of the cube's code.
func (u *unit) logLevel() slog.Level { return u.env.level.Level() }

func (u *unit) setLogLevel(l slog.Level) { u.env.level.Set(l) }

// setType sets the hook that the cube's code is told of.
func (u *unit) setType(t cube.Type) { u.env.typ = t }

// takeOver has the cube's code know that the cube was there before.
func (u *unit) takeOver() { u.env.takenOver = true }

// ready says whether the cube's maps exist.
func (u *unit) ready() bool { return u.env.ready.Load() }

func (u *unit) setReady(is bool) { u.env.ready.Store(is) }

// Levels of the model that slog has no name for.
const (
	levelTrace    = slog.LevelDebug - 4
	levelCritical = slog.LevelError + 4
	levelOff      = slog.LevelError + 100
)

// logLevels translates the model's enum loglevel.
var logLevels = map[string]struct {
	fast datapath.LogLevel
	slow slog.Level
}{
	"TRACE": {datapath.LogTrace, levelTrace}, "DEBUG": {datapath.LogDebug, slog.LevelDebug},
	"INFO": {datapath.LogInfo, slog.LevelInfo}, "WARN": {datapath.LogWarn, slog.LevelWarn},
	"ERR": {datapath.LogErr, slog.LevelError}, "CRITICAL": {datapath.LogCritical, levelCritical},
	"OFF": {datapath.LogOff, levelOff},
}

// slowLevel is the slog level of a fast-path record.
func slowLevel(l datapath.LogLevel) slog.Level {
	for _, v := range logLevels {
		if v.fast == l {
			return v.slow
		}
	}
	return levelCritical
}
