// SPDX-License-Identifier: Apache-2.0

package services

// External services start, stop, hang and crash, without effect on packets of their cubes. A goroutine per service
// watches its run: when the run ends, the cubes are degraded; when a new one starts, it takes the cubes over.

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
	"github.com/polycube/polycube/internal/topology/service"
)

// How long the daemon waits for services when it starts, and the pauses between attempts to restart a lost service or
// to take over a degraded cube.
const (
	startWait    = 10 * time.Second
	firstRetry   = 500 * time.Millisecond
	longestRetry = time.Minute
	// mendTimeout limits one attempt to repair a service.
	mendTimeout = 60 * time.Second
	// steady is how long a run must last so that its end does not count as one more in a series of crashes.
	steady = 30 * time.Second
)

// Open starts the services in the store; those that start in time do so before the cubes.
func (k *Keeper) Open(host service.Host, state *store.State) {
	k.host, k.byName = host, map[string]*service.External{}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	if host == nil || state == nil {
		return
	}
	for _, r := range state.Records {
		name, ok := strings.CutPrefix(r.Key, service.Key)
		if !ok {
			continue
		}
		var reg service.Registration
		if err := json.Unmarshal(r.Value, &reg); err != nil || reg.Name != name {
			k.log.Error("a stored service cannot be read, it stays in the store", "service", name, "error", err)
			continue
		}
		k.byName[name] = service.NewExternal(reg)
	}
	ctx, cancel := context.WithTimeout(k.ctx, startWait)
	defer cancel()
	lives := map[string]service.Life{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for name, o := range k.byName {
		all.Go(func() {
			reg, _, _ := o.Now()
			life, err := host.Start(ctx, reg, nil)
			if err != nil {
				o.Said(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			lives[name] = life
		})
	}
	all.Wait()
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		k.welcome(k.byName[name], lives[name])
	}
}

// welcome loads a service that started together with the daemon.
func (k *Keeper) welcome(o *service.External, life service.Life) {
	reg, _, _ := o.Now()
	svc, err := k.admit(reg, life, func(svc *service.Service) error {
		if err := k.CheckServiceName(o.Name); err != nil {
			return err
		}
		return k.dp.CheckObject(o.Name, svc.Objects)
	})
	if err != nil {
		o.Dead(nil, err)
		return
	}
	k.loaded.Store(k.loaded.Load().With(svc))
	o.Live(reg, life)
}

// WatchAll starts to watch the existing services.
func (k *Keeper) WatchAll() {
	for _, name := range slices.Sorted(maps.Keys(k.byName)) {
		o := k.byName[name]
		if failure := o.State().Error; failure != "" {
			k.log.Error("a service could not be started, its cubes keep forwarding until it can", "service", name, "error", failure)
		}
		k.done.Go(func() { k.watch(o) })
	}
}

// Close ends all services.
func (k *Keeper) Close() {
	if k.cancel == nil {
		return // it was never started
	}
	k.mu.Lock()
	k.cancel()
	k.mu.Unlock()
	k.done.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range k.byName {
		if _, life, _ := o.Now(); life != nil {
			o.Dead(life, service.ErrClosed)
			life.Close()
		}
	}
}

// watch waits for changes of a service, until it is removed or the daemon stops. A service that crashes repeatedly is
// restarted at growing intervals.
func (k *Keeper) watch(o *service.External) {
	pause, next := firstRetry, firstRetry
	for {
		_, life, changed := o.Now()
		var done <-chan struct{}
		if life != nil {
			done = life.Done()
		}
		timer := time.NewTimer(pause)
		select {
		case <-k.ctx.Done():
		case <-o.Gone():
		case <-changed:
			pause = firstRetry
		case <-done:
			pause = next
			if next = min(2*next, longestRetry); o.Lasted() > steady {
				pause, next = firstRetry, firstRetry
			}
			k.lose(o, life)
		case <-timer.C:
			if k.mend(o, life) {
				pause = firstRetry
			} else {
				pause = min(2*pause, longestRetry)
			}
		}
		timer.Stop()
		if k.ctx.Err() != nil || o.Removed() {
			return
		}
	}
}

// lose degrades the cubes of a service whose run has ended.
func (k *Keeper) lose(o *service.External, life service.Life) {
	why := life.Err()
	if why == nil {
		why = errors.New("it ended")
	}
	if !o.Dead(life, why) {
		return
	}
	life.Close()
	k.log.Error("service lost, its cubes continue to forward", "service", o.Name, "error", why)
	k.cubes.TellService(o.Name, "lost", why.Error())
	for _, u := range k.unitsOf(o.Name) {
		u.Degrade(fmt.Sprintf("service %s is lost since %s: %v", o.Name, time.Now().Format(time.TimeOnly), why))
	}
}

// mend restarts a lost service, or takes over cubes of a running one that are degraded. It reports whether all of them
// work.
func (k *Keeper) mend(o *service.External, life service.Life) bool {
	ctx, cancel := context.WithTimeout(k.ctx, mendTimeout)
	defer cancel()
	if o.Take(ctx) != nil {
		return false
	}
	defer o.Give()
	reg, now, _ := o.Now()
	if now != life || o.Removed() {
		return true
	}
	if life == nil {
		if err := k.revive(ctx, o, reg); err != nil {
			if o.Said(err) {
				k.log.Error("a service cannot be started, trying again", "service", o.Name, "error", err)
			}
			return false
		}
		return true
	}
	svc := k.loaded.Load().ByName[o.Name]
	names := k.orphans(svc)
	return len(names) == 0 || len(k.cubes.TakeOver(ctx, svc, names)) == 0
}

// revive starts another run of a service and takes its cubes over. The caller has the turn.
func (k *Keeper) revive(ctx context.Context, o *service.External, reg service.Registration) error {
	start, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	life, err := k.host.Start(start, reg, o.LastLife())
	if err != nil {
		return err
	}
	svc, err := k.meetAgain(reg, life)
	if err == nil {
		err = k.install(ctx, svc)
	}
	if err != nil {
		life.Close()
		return err
	}
	o.Restarted()
	o.Live(reg, life)
	failed := k.cubes.TakeOver(ctx, svc, k.orphans(svc))
	k.cubes.TellService(o.Name, "back", "")
	k.log.Info("service returned", "service", o.Name, "cubes", len(k.unitsOf(o.Name)), "degraded", len(failed))
	return nil
}

// meet makes a service from the description that a run gives.
func (k *Keeper) meet(reg service.Registration, life service.Life) (*service.Service, error) {
	svc, err := service.Load(life.Service())
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", reg.Name, err)
	}
	svc.Reg = &reg
	if svc.Info.Name != reg.Name {
		err = fmt.Errorf("service %s: the name in its model is %s: %w", reg.Name, svc.Info.Name, cube.ErrInvalid)
	} else if err = service.KernelIs(svc.Info.MinKernel); err != nil {
		err = fmt.Errorf("service %s: %w", reg.Name, err)
	}
	if err != nil {
		svc.Schema.Close()
		return nil, err
	}
	return svc, nil
}

// meetAgain is meet for a service that may already be loaded; the description must then be the same.
func (k *Keeper) meetAgain(reg service.Registration, life service.Life) (*service.Service, error) {
	was := k.loaded.Load().ByName[reg.Name]
	if was == nil {
		return k.meet(reg, life)
	}
	if is := life.Service(); !service.Same(was.Service, is) {
		return nil, fmt.Errorf("service %s returned with another model or other programs: run polycubectl services update %s to accept it: %w",
			reg.Name, reg.Name, cube.ErrInvalid)
	}
	return &service.Service{Service: life.Service(), Schema: was.Schema, Info: was.Info, Reg: &reg}, nil
}
