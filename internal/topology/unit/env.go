// SPDX-License-Identifier: Apache-2.0

package unit

// The framework as a cube's code sees it. Except for changes of programs nothing here waits for a lock of the topology,
// so a cube may call it at any time, from its own goroutines too.

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/compile"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/world"
)

// Datapath is the part of the data plane that a cube's code uses.
type Datapath interface {
	// Map returns one of a cube's maps by its C name.
	Map(id datapath.CubeID, name string) (*ebpf.Map, error)
	// Inner describes the inner maps of one of a cube's maps of maps.
	Inner(id datapath.CubeID, name string) (*ebpf.MapSpec, error)
	// Origin returns how one of a cube's maps was created.
	Origin(id datapath.CubeID, name string) (origins.Origin, error)
	// SetFloods replaces sets of ports that a cube's programs flood to; only says that it has no others afterwards.
	SetFloods(id datapath.CubeID, sets map[uint32][]cube.FloodMember, only bool) error
	// Floods returns these sets of a cube.
	Floods(id datapath.CubeID) map[uint32][]cube.FloodMember
	// Send sends a packet of the slow path into the fast path.
	Send(id datapath.CubeID, transparent bool, p *cube.PacketOut) error
}

// env implements cube.Env.
type env struct {
	name        string
	typ         cube.Type
	id          datapath.CubeID
	transparent bool
	uuid        string
	// takenOver is set if the cube existed before its code: its maps may have entries.
	takenOver bool
	// degrade is the unit's.
	degrade func(reason string)
	// compile is the manager's; nil if there is no compiler.
	compile func(context.Context, compile.Source) ([]byte, error)
	// ownStation is the manager's.
	ownStation func(net.HardwareAddr) bool
	dp         Datapath
	log        *slog.Logger
	level      *slog.LevelVar
	// ready is set before the steps of the first plan: the maps exist.
	ready atomic.Bool
	// maps are the maps looked up so far, *ebpf.Map by name.
	maps  atomic.Pointer[sync.Map]
	ports atomic.Pointer[PortTable]
	// programs and start are the unit's.
	programs programs
	start    func(d time.Duration, repeat bool, fn func()) (stop func())
	post     func(Task)
	// edit and tell are the manager's.
	edit        func(wanted func() ([]cube.Edit, error)) error
	tell        func(state, what string)
	tellSession func(state, what string)
	advertise   func(prefixes []netip.Prefix) error
}

// PortTable translates between names and indexes of ports. During a transaction it contains the ports from before and
// after.
type PortTable struct {
	index map[string]uint16
	name  map[uint16]string
}

// NewPortTable contains the ports of several records of one cube; nil records have none.
func NewPortTable(recs ...*world.Cube) *PortTable {
	t := &PortTable{index: map[string]uint16{}, name: map[uint16]string{}}
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
func (e *env) Instance() uint16     { return uint16(e.id) }
func (e *env) UUID() string         { return e.uuid }
func (e *env) Logger() *slog.Logger { return e.log }

// The following is for external services, which access it through interfaces of their own.

// TakenOver reports whether the cube existed before its code.
func (e *env) TakenOver() bool { return e.takenOver }

// Degrade degrades the cube: its code is not called any more.
func (e *env) Degrade(reason string) { e.degrade(reason) }

// Map looks a map up once: the data plane's lock may be held for long, and tables need the map at each use.
func (e *env) Map(name string) (*ebpf.Map, error) {
	if !e.ready.Load() {
		return nil, fmt.Errorf("%s: map %s: maps exist from the first plan's steps on", e.name, name)
	}
	known := e.maps.Load()
	if m, ok := known.Load(name); ok {
		return m.(*ebpf.Map), nil
	}
	m, err := e.dp.Map(e.id, name)
	if err != nil {
		return nil, fmt.Errorf("%s: map %s: %w", e.name, name, err)
	}
	known.Store(name, m)
	return m, nil
}

func (e *env) Do(fn func()) error {
	done := make(chan error, 1)
	e.post(Task{What: "Do", Run: func() { fn(); done <- nil }, Dropped: func() { done <- errGone }})
	return <-done
}

func (e *env) Origin(name string) (origins.Origin, error) {
	origin, err := e.dp.Origin(e.id, name)
	if err != nil {
		return 0, fmt.Errorf("%s: map %s: %w", e.name, name, err)
	}
	return origin, nil
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
		return fmt.Errorf("%s: send a packet: the cube is not in the fast path yet", e.name)
	}
	if err := e.dp.Send(e.id, e.transparent, p); err != nil {
		return fmt.Errorf("%s: send a packet: %w", e.name, err)
	}
	return nil
}

// OwnStation implements cube.Host.
func (e *env) OwnStation(mac net.HardwareAddr) bool { return e.ownStation(mac) }

// Compile implements compile.Compiler.
func (e *env) Compile(ctx context.Context, s compile.Source) ([]byte, error) {
	if e.compile == nil {
		return nil, fmt.Errorf("this daemon cannot compile C; give a compiled object: %w", cube.ErrUnsupported)
	}
	return e.compile(ctx, s)
}

// EditLater implements author.Author.
func (e *env) EditLater(wanted func() ([]cube.Edit, error), done func(error)) {
	go func() {
		err := e.edit(wanted)
		e.post(Task{What: "EditLater", Run: func() { done(err) }, Dropped: func() {}})
	}()
}

// Announce implements author.Author.
func (e *env) Announce(state, what string) { e.tell(state, what) }

// Advertise implements advertise.Advertiser.
func (e *env) Advertise(prefixes []netip.Prefix) error { return e.advertise(prefixes) }

// AnnounceSession implements author.Author.
func (e *env) AnnounceSession(state, what string) { e.tellSession(state, what) }

func (e *env) Programs() cube.Programs { return e.programs }
func (e *env) Floods() cube.Floods     { return floods{e} }

// floods implements cube.Floods.
type floods struct{ e *env }

func (f floods) Set(index uint32, members []cube.FloodMember) error {
	return f.SetAll(map[uint32][]cube.FloodMember{index: members})
}

func (f floods) SetAll(sets map[uint32][]cube.FloodMember) error { return f.set(sets, false) }
func (f floods) All() map[uint32][]cube.FloodMember              { return f.e.dp.Floods(f.e.id) }
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

// Ports translates between names and indexes of the cube's ports.
func (u *Unit) Ports() *PortTable { return u.env.ports.Load() }

// SetPorts replaces the names and indexes used for the translation.
func (u *Unit) SetPorts(t *PortTable) { u.env.ports.Store(t) }

// Env is the framework as the cube's code sees it.
func (u *Unit) Env() cube.Env { return u.env }

// PortName is the name of a port.
func (u *Unit) PortName(index uint16) (string, bool) { return u.env.PortName(index) }

// LogLevel is the log level of the cube's code.
func (u *Unit) LogLevel() slog.Level { return u.env.level.Level() }

// SetLogLevel sets the level of the cube's code.
func (u *Unit) SetLogLevel(l slog.Level) { u.env.level.Set(l) }

// SetType sets the hook that the cube's code is told.
func (u *Unit) SetType(t cube.Type) { u.env.typ = t }

// TakeOver tells the cube's code that the cube existed before it.
func (u *Unit) TakeOver() { u.env.takenOver = true }

// Ready reports whether the cube's maps exist.
func (u *Unit) Ready() bool { return u.env.ready.Load() }

// SetReady records whether the cube's maps exist. Maps are looked up again afterwards: others may have replaced them.
func (u *Unit) SetReady(is bool) {
	u.env.ready.Store(is)
	u.env.maps.Store(new(sync.Map))
}

// LevelTrace and LevelCritical are levels of the model for which slog has no name.
const (
	LevelTrace    = slog.LevelDebug - 4
	LevelCritical = slog.LevelError + 4
	levelOff      = slog.LevelError + 100
)

// LogLevels translates the model's enum loglevel to the levels of the fast path and of the log.
var LogLevels = map[string]struct {
	Fast datapath.LogLevel
	slow slog.Level
}{
	"TRACE": {datapath.LogTrace, LevelTrace}, "DEBUG": {datapath.LogDebug, slog.LevelDebug},
	"INFO": {datapath.LogInfo, slog.LevelInfo}, "WARN": {datapath.LogWarn, slog.LevelWarn},
	"ERR": {datapath.LogErr, slog.LevelError}, "CRITICAL": {datapath.LogCritical, LevelCritical},
	"OFF": {datapath.LogOff, levelOff},
}

// SlowLevel is the slog level of a fast-path record.
func SlowLevel(l datapath.LogLevel) slog.Level {
	for _, v := range LogLevels {
		if v.Fast == l {
			return v.slow
		}
	}
	return LevelCritical
}
