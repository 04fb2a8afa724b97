// SPDX-License-Identifier: Apache-2.0

package topology

// Services that are not part of the daemon come, go, hang and die, and their cubes' packets must not notice. Each has a
// goroutine that watches its life: when that ends, its cubes are degraded; when there is a new one, they are taken over.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/store"
)

// Registration is a service that is not part of the daemon, as a request names it and the store keeps it.
type Registration struct {
	Name string `json:"name"`
	// Type is lib, an executable that the daemon starts, or grpc, a process that listens elsewhere.
	Type string `json:"type"`
	// URI is the path of the executable, or HOST:PORT.
	URI string `json:"uri"`
}

// Host starts services that are not part of the daemon.
type Host interface {
	// Start begins a life of a service: a process or a connection. again is an earlier life of the same version, nil if
	// there was none or another version is wanted. The context bounds the start alone.
	Start(ctx context.Context, r Registration, again Life) (Life, error)
}

// Life is a running service, from its start until it is lost or closed. It does not come back: Start makes the next.
type Life interface {
	// Service is what it says it is. Its instances fail when the life has ended.
	Service() cube.Service
	// Done is closed when the life has ended, of which Err is the reason.
	Done() <-chan struct{}
	Err() error
	// Close ends it.
	Close()
}

// serviceKey begins the keys in the store of services.
const serviceKey = "service/"

// How long a start of the daemon waits for services, and the pauses between attempts to start one that was lost or to
// take over a cube that is degraded.
const (
	startWait    = 10 * time.Second
	firstRetry   = 500 * time.Millisecond
	longestRetry = time.Minute
	// steady is how long a life must last for its end not to be one of a series.
	steady = 30 * time.Second
)

// outsiders are the services that are not part of the daemon.
type outsiders struct {
	host   Host
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	byName map[string]*outsider
}

// outsider is one of them.
type outsider struct {
	name string
	// turn holds one token: who has it may begin and end lives.
	turn chan struct{}
	// ended is closed when the service is removed.
	ended chan struct{}

	mu       sync.Mutex
	reg      Registration
	life     Life // nil while there is none
	last     Life // the life, or the one that ended
	since    time.Time
	restarts int
	failure  string
	// changed is closed when another life takes over.
	changed chan struct{}
}

func newOutsider(reg Registration) *outsider {
	o := &outsider{name: reg.Name, reg: reg, turn: make(chan struct{}, 1), ended: make(chan struct{}),
		changed: make(chan struct{}), since: time.Now()}
	o.turn <- struct{}{}
	return o
}

func (o *outsider) take(ctx context.Context) error {
	select {
	case <-o.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("service %s: waiting for another change of it to end: %w", o.name, ctx.Err())
	}
}

func (o *outsider) give() { o.turn <- struct{}{} }

// now returns the life and what is closed when there is another one.
func (o *outsider) now() (Registration, Life, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reg, o.life, o.changed
}

// live notes that a life has begun, and returns the one before.
func (o *outsider) live(reg Registration, life Life) Life {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.life
	o.reg, o.life, o.last, o.since, o.failure = reg, life, life, time.Now(), ""
	close(o.changed)
	o.changed = make(chan struct{})
	return before
}

// dead notes that a life has ended, or that none has begun; it reports whether there was one that ended.
func (o *outsider) dead(life Life, why error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if life != nil && o.life != life {
		return false // an update was faster
	}
	if o.life != nil {
		o.since = time.Now()
	}
	o.life, o.failure = nil, why.Error()
	return life != nil
}

// openOutside starts the services of the store, those that begin in time before the cubes.
func (m *Manager) openOutside(host Host, state *store.State) {
	m.outside.host, m.outside.byName = host, map[string]*outsider{}
	m.outside.ctx, m.outside.cancel = context.WithCancel(context.Background())
	if host == nil || state == nil {
		return
	}
	for _, r := range state.Records {
		name, ok := strings.CutPrefix(r.Key, serviceKey)
		if !ok {
			continue
		}
		var reg Registration
		if err := json.Unmarshal(r.Value, &reg); err != nil || reg.Name != name {
			m.log.Error("a stored service cannot be read, it is left in the store", "service", name, "error", err)
			continue
		}
		m.outside.byName[name] = newOutsider(reg)
	}
	ctx, cancel := context.WithTimeout(m.outside.ctx, startWait)
	defer cancel()
	lives := map[string]Life{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for name, o := range m.outside.byName {
		all.Go(func() {
			life, err := host.Start(ctx, o.reg, nil)
			if err != nil {
				o.failure = err.Error()
				return
			}
			mu.Lock()
			defer mu.Unlock()
			lives[name] = life
		})
	}
	all.Wait()
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		m.welcome(m.outside.byName[name], lives[name])
	}
}

// welcome loads a service that began at the start of the daemon.
func (m *Manager) welcome(o *outsider, life Life) {
	svc, err := m.admit(o.reg, life, func(svc *service) error {
		if err := m.checkServiceName(o.name); err != nil {
			return err
		}
		return m.dp.CheckObject(o.name, svc.Objects)
	})
	if err != nil {
		o.dead(nil, err)
		return
	}
	m.loaded.Store(m.loaded.Load().with(svc))
	o.live(o.reg, life)
}

// watchOutside begins to watch the services that are there.
func (m *Manager) watchOutside() {
	for _, name := range slices.Sorted(maps.Keys(m.outside.byName)) {
		o := m.outside.byName[name]
		if o.failure != "" {
			m.log.Error("a service could not be started, its cubes are held until it can", "service", name, "error", o.failure)
		}
		m.outside.done.Go(func() { m.watch(o) })
	}
}

// closeOutside ends all services.
func (m *Manager) closeOutside() {
	if m.outside.cancel == nil {
		return // it never came that far
	}
	m.outside.mu.Lock()
	m.outside.cancel()
	m.outside.mu.Unlock()
	m.outside.done.Wait()
	m.outside.mu.Lock()
	defer m.outside.mu.Unlock()
	for _, o := range m.outside.byName {
		if _, life, _ := o.now(); life != nil {
			o.dead(life, errClosed)
			life.Close()
		}
	}
}

// watch waits for what happens to a service, until it is removed or the daemon stops. One that dies again and again is
// started less and less often.
func (m *Manager) watch(o *outsider) {
	pause, next := firstRetry, firstRetry
	for {
		_, life, changed := o.now()
		var done <-chan struct{}
		if life != nil {
			done = life.Done()
		}
		timer := time.NewTimer(pause)
		select {
		case <-m.outside.ctx.Done():
		case <-o.ended:
		case <-changed:
			pause = firstRetry
		case <-done:
			pause = next
			if next = min(2*next, longestRetry); o.lived() > steady {
				pause, next = firstRetry, firstRetry
			}
			m.lose(o, life)
		case <-timer.C:
			if m.mend(o, life) {
				pause = firstRetry
			} else {
				pause = min(2*pause, longestRetry)
			}
		}
		timer.Stop()
		if m.outside.ctx.Err() != nil || o.removed() {
			return
		}
	}
}

// lived is how long the life has lasted.
func (o *outsider) lived() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.since)
}

func (o *outsider) removed() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// lose degrades the cubes of a service whose life has ended.
func (m *Manager) lose(o *outsider, life Life) {
	why := life.Err()
	if why == nil {
		why = errors.New("it ended")
	}
	if !o.dead(life, why) {
		return
	}
	life.Close()
	m.log.Error("a service is lost, the fast path of its cubes goes on", "service", o.name, "error", why)
	m.TellService(o.name, "lost", why.Error())
	for _, u := range m.unitsOf(o.name) {
		u.degrade(fmt.Sprintf("service %s is lost since %s: %v", o.name, time.Now().Format(time.TimeOnly), why))
	}
}

// unitsOf lists the living cubes of a service.
func (m *Manager) unitsOf(name string) []*unit {
	w := m.view.Load()
	var list []*unit
	for cubeName, rec := range w.Cubes {
		if rec.Service == name {
			list = append(list, w.units[cubeName])
		}
	}
	return list
}

// mend starts a service that is lost, or takes over cubes of one that runs and that do not work with it. It reports
// whether all is well.
func (m *Manager) mend(o *outsider, life Life) bool {
	ctx, cancel := context.WithTimeout(m.outside.ctx, prepareTimeout)
	defer cancel()
	if o.take(ctx) != nil {
		return false
	}
	defer o.give()
	reg, now, _ := o.now()
	if now != life || o.removed() {
		return true
	}
	if life == nil {
		if err := m.revive(ctx, o, reg); err != nil {
			if o.said(err) {
				m.log.Error("a service cannot be started, it is tried again", "service", o.name, "error", err)
			}
			return false
		}
		return true
	}
	svc := m.loaded.Load().byName[o.name]
	names := m.orphans(svc)
	return len(names) == 0 || len(m.takeOver(ctx, svc, names)) == 0
}

// said notes why an attempt failed; it reports whether that is news.
func (o *outsider) said(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	news := o.failure != err.Error()
	o.failure = err.Error()
	return news
}

// orphans are the cubes of a service that its code does not look after.
func (m *Manager) orphans(svc *service) []string {
	w := m.view.Load()
	var names []string
	for name, u := range w.units {
		if u.svc.info.Name == svc.info.Name && (u.svc != svc || u.degraded.Load() != nil) {
			names = append(names, name)
		}
	}
	for name, b := range w.Broken {
		if b.Stored.Service == svc.info.Name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// revive begins another life of a service, and takes its cubes over. The caller has the turn.
func (m *Manager) revive(ctx context.Context, o *outsider, reg Registration) error {
	start, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	o.mu.Lock()
	last := o.last
	o.mu.Unlock()
	life, err := m.outside.host.Start(start, reg, last)
	if err != nil {
		return err
	}
	svc, err := m.meetAgain(reg, life)
	if err == nil {
		err = m.install(ctx, svc)
	}
	if err != nil {
		life.Close()
		return err
	}
	o.mu.Lock()
	o.restarts++
	o.mu.Unlock()
	o.live(reg, life)
	failed := m.takeOver(ctx, svc, m.orphans(svc))
	m.TellService(o.name, "back", "")
	m.log.Info("a service is back", "service", o.name, "cubes", len(m.unitsOf(o.name)), "degraded", len(failed))
	return nil
}

// meet makes a service of what a life says of itself.
func (m *Manager) meet(reg Registration, life Life) (*service, error) {
	svc, err := newService(life.Service())
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", reg.Name, err)
	}
	svc.reg = &reg
	if svc.info.Name != reg.Name {
		err = fmt.Errorf("service %s: its model names it %s: %w", reg.Name, svc.info.Name, cube.ErrInvalid)
	} else if err = KernelIs(svc.info.MinKernel); err != nil {
		err = fmt.Errorf("service %s: %w", reg.Name, err)
	}
	if err != nil {
		svc.schema.Close()
		return nil, err
	}
	return svc, nil
}

// meetAgain is meet for a service that may be loaded already, and must be the same then.
func (m *Manager) meetAgain(reg Registration, life Life) (*service, error) {
	was := m.loaded.Load().byName[reg.Name]
	if was == nil {
		return m.meet(reg, life)
	}
	if is := life.Service(); !sameService(was.Service, is) {
		return nil, fmt.Errorf("service %s came back with another model or other programs: polycubectl services update %s takes it: %w",
			reg.Name, reg.Name, cube.ErrInvalid)
	}
	return &service{Service: life.Service(), schema: was.schema, info: was.info, reg: &reg}, nil
}
