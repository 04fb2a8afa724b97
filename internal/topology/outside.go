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
			reg, _, _ := o.now()
			life, err := host.Start(ctx, reg, nil)
			if err != nil {
				o.said(err)
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
	reg, _, _ := o.now()
	svc, err := m.admit(reg, life, func(svc *service) error {
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
	o.live(reg, life)
}

// watchOutside begins to watch the services that are there.
func (m *Manager) watchOutside() {
	for _, name := range slices.Sorted(maps.Keys(m.outside.byName)) {
		o := m.outside.byName[name]
		if failure := o.state().Error; failure != "" {
			m.log.Error("a service could not be started, its cubes are held until it can", "service", name, "error", failure)
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
		case <-o.gone():
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
	life, err := m.outside.host.Start(start, reg, o.lastLife())
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
	o.restarted()
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
