// SPDX-License-Identifier: Apache-2.0

package topology

// What requests, transactions and restoration work on.

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/compile"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/align"
	"github.com/polycube/polycube/internal/topology/announce"
	"github.com/polycube/polycube/internal/topology/neighbours"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/trial"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// parts are what the manager consists of. None is replaced after New, and each guards its own state.
type parts struct {
	*read.Reader
	*slowPath
	dp      Datapath
	netdevs Netdevs
	shadows Shadows // nil: shadow cubes are refused
	log     *slog.Logger
	// compile compiles C for cubes; nil if that is not possible.
	compile func(context.Context, compile.Source) ([]byte, error)
	// commit makes records durable; nil keeps the configuration in memory only.
	commit func([]store.Record) error
	// notes knows why a netdev does not forward; nil when the data plane does not know.
	notes world.Notes

	// loaded are the services.
	loaded atomic.Pointer[service.Registry]
	// view is the current snapshot. Only the holder of the writer's token stores another one.
	view atomic.Pointer[unit.Snapshot]
	// inUse is the graph that the data plane has. Its lock is taken last, after the writer's token and the gates of cubes;
	// who holds it does not wait for a handler.
	inUse *graphInUse

	// editOwn makes edits that a cube's code has asked for.
	editOwn func(name, uuid string, wanted func() ([]cube.Edit, error)) error

	units      *units
	news       unit.News
	neighbours *neighbours.Neighbours
	aligner    *align.Aligner
	events     *announce.Announcer
	tallies    tallies
	trials     *trial.Keeper
	garbage    garbage
}

// newParts returns the parts of a manager without services and cubes. Missing options have their defaults.
func newParts(o Options, commit func([]store.Record) error) *parts {
	p := &parts{dp: o.Datapath, netdevs: o.Netdevs, shadows: o.Shadows, log: o.Logger, commit: commit, compile: o.Compile, tallies: newTallies()}
	p.notes, _ = o.Datapath.(world.Notes)
	if p.netdevs == nil {
		p.netdevs = kernelNetdevs{}
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	var namespace func(string) string
	if p.shadows != nil {
		namespace = p.shadows.Name
	}
	p.view.Store(unit.NewSnapshot())
	p.loaded.Store(&service.Registry{})
	p.Reader = read.New(&p.view, &p.loaded, p.dp, p.netdevs, p.notes, namespace)
	p.slowPath = &slowPath{view: &p.view}
	p.inUse = newGraphInUse(p.dp, p.log, &p.view)
	p.events = announce.New(o.Events, p.log)
	p.neighbours = neighbours.New(&p.view, p.netdevs, &p.news)
	p.units = &units{parts: p}
	return p
}
