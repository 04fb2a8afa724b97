// SPDX-License-Identifier: Apache-2.0

package external

// The control plane of one cube, which is in the service. Calls come one at a time, from the topology.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/service"
)

// environment is the part of the topology's Env for external services.
type environment interface {
	cube.Env
	UUID() string
	TakenOver() bool
	Degrade(reason string)
}

// instance is a cube of the service; calls that the service did not request are not sent to it.
type instance struct {
	l      *life
	env    environment
	handle uint64
	open   bool
	// plans counts plans; only the last one can be undone.
	plans uint64
	// series are the metrics from the service.
	series atomic.Pointer[[]*pb.Metric]

	mu sync.Mutex
	// undo reverts map writes while a plan is committed; nil otherwise.
	undo *journal
	// closed says that the maps must not be used any more.
	closed bool
}

func (l *life) newInstance(env cube.Env) (cube.Instance, error) {
	i, err := instanceOf(l, env)
	if err != nil {
		return cube.Instance{}, err
	}
	out := cube.Instance{Prepare: i.Prepare, State: i.State, DeleteState: i.DeleteState, Action: i.Action, PacketIn: i.PacketIn, Notify: i.Notify,
		PortChanged: i.PortChanged, ParentChanged: i.ParentChanged, Close: i.Close}
	if l.description.GetPages() {
		out.Page = i.Page
	}
	if l.description.GetPeers() {
		out.PeerChanged = i.PeerChanged
	}
	if l.description.GetLinks() {
		out.LinkChanged = i.LinkChanged
	}
	return out, nil
}

func instanceOf(l *life, env cube.Env) (*instance, error) {
	e, ok := env.(environment)
	if !ok {
		return nil, fmt.Errorf("a cube of this kind requires more from its environment than %T provides: %w", env, cube.ErrUnsupported)
	}
	return &instance{l: l, env: e, handle: random()}, nil
}

// call makes a call with a deadline. After a missed deadline the state of the cube in the service is unknown: the cube
// is not called until it has been opened again.
func (i *instance) call(ctx context.Context, what string, d deadlineOf, fn func(context.Context) error) error {
	if i.l.ended() {
		return &lost{fmt.Sprintf("service %s is not running (%v)", i.l.reg.Name, i.l.Err()), false}
	}
	limit := d(i.l.limits)
	ctx, cancel := timed(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(i.l.ctx, cancel)
	defer stop()
	err := fn(ctx)
	if err == nil {
		i.l.misses.Store(0)
		return nil
	}
	if i.l.endsWith(err) {
		return &lost{fmt.Sprintf("service %s was lost during %s (%v)", i.l.reg.Name, what, i.l.Err()), false}
	}
	if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Canceled {
		reason := fmt.Sprintf("service %s did not answer %s within %v", i.l.reg.Name, what, limit)
		i.env.Degrade(reason)
		if i.l.misses.Add(1) == maxMisses { // so that other calls do not wait for it again for each of its cubes
			i.l.end(lostError(fmt.Sprintf("it missed the deadlines of %d calls in a row", maxMisses), nil))
		}
		return &lost{reason, false}
	}
	i.l.misses.Store(0)
	if _, ok := status.FromError(err); !ok {
		return fmt.Errorf("%s: %w", what, err)
	}
	return callError(err)
}

// endsWith reports whether an error of a call comes from the end of the session, which may be noticed a little later.
func (l *life) endsWith(err error) bool {
	if status.Code(err) == codes.Unavailable {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-l.done:
		case <-timer.C:
		}
	}
	return l.ended()
}

// deadlineOf selects one of the deadlines.
type deadlineOf func(deadlines) time.Duration

// Prepare requests a plan from the service.
func (i *instance) Prepare(ctx context.Context, c cube.Change) (cube.Plan, error) {
	old, after := c.Old, c.New
	if len(old)+len(after) > 2*maxDocument {
		return cube.Plan{}, fmt.Errorf("its configuration has more than %d bytes: %w", maxDocument, cube.ErrFull)
	}
	i.plans++
	number := i.plans
	var plan *pb.Plan
	err := i.call(ctx, "Prepare", prepareTime, func(ctx context.Context) (err error) {
		if !i.open {
			if err := i.openCube(ctx); err != nil {
				return err
			}
		}
		plan, err = i.l.client.Prepare(ctx, &pb.PrepareRequest{Cube: i.handle, Plan: number, Old: old, After: after,
			Ports: i.ports(old, after)})
		return err
	})
	if err != nil {
		return cube.Plan{}, err
	}
	var committed atomic.Bool
	out, err := i.checkPlan(number, plan, &committed)
	if err != nil {
		i.abort(number)
		return cube.Plan{}, fmt.Errorf("service %s, Prepare: %w", i.l.reg.Name, err)
	}
	if len(out.Before) > 0 {
		context.AfterFunc(ctx, func() { // the transaction is over
			if !committed.Load() {
				i.abort(number)
			}
		})
	}
	return out, nil
}

// openCube opens the cube.
func (i *instance) openCube(ctx context.Context) error {
	i.l.add(i)
	_, err := i.l.client.Open(ctx, &pb.OpenRequest{Session: i.l.session, Cube: i.handle, Name: i.env.Name(), Uuid: i.env.UUID(),
		Type: string(i.env.Type()), TakenOver: i.env.TakenOver()})
	if err != nil {
		i.l.remove(i)
		return err
	}
	i.open = true
	return nil
}

// ports are the ports of two configurations with their numbers.
func (i *instance) ports(configs ...json.RawMessage) []*pb.Port {
	var list []*pb.Port
	seen := map[string]bool{}
	for _, raw := range configs {
		var conf struct {
			Ports []cube.Port `json:"ports"`
		}
		if len(raw) == 0 || json.Unmarshal(raw, &conf) != nil {
			continue // a transparent cube has none
		}
		for _, p := range conf.Ports {
			if index, ok := i.env.PortIndex(p.Name); ok && !seen[p.Name] {
				seen[p.Name] = true
				list = append(list, &pb.Port{Name: p.Name, Index: uint32(index)})
			}
		}
	}
	return list
}

// abort tells the service that a plan is void, without waiting for it.
func (i *instance) abort(plan uint64) {
	i.callAsync(func(ctx context.Context) error {
		_, err := i.l.client.Abort(ctx, &pb.PlanRequest{Cube: i.handle, Plan: plan})
		return err
	})
}

// callAsync makes a call without waiting for it; errors are ignored.
func (i *instance) callAsync(fn func(context.Context) error) {
	if i.l.ended() {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(i.l.ctx, closeTime)
		defer cancel()
		if err := fn(ctx); err != nil && status.Code(err) != codes.Unimplemented {
			i.l.log.Debug("notification of a service failed", "cube", i.env.Name(), "err", callError(err))
		}
	}()
}

// Close tells the service that the cube is closed.
func (i *instance) Close() {
	i.l.remove(i)
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	if !i.open {
		return
	}
	i.open = false
	i.callAsync(func(ctx context.Context) error {
		_, err := i.l.client.Close(ctx, &pb.CloseRequest{Cube: i.handle})
		return err
	})
}

// State requests state from the service.
func (i *instance) State(ctx context.Context, path []string) (any, error) {
	if !i.l.description.GetState() {
		return nil, nil
	}
	doc, err := i.state(ctx, path)
	if err == nil || len(path) > 0 {
		return doc, err
	}
	// When all cubes are read, the others are returned whatever this one answers.
	if i.l.lines.take() {
		i.env.Logger().Warn("the state is omitted", "err", err)
	}
	return nil, nil
}

// state requests state. An invalid response degrades the cube.
func (i *instance) state(ctx context.Context, path []string) (any, error) {
	var answer *pb.StateResponse
	err := i.call(ctx, "State", stateTime, func(ctx context.Context) (err error) {
		answer, err = i.l.client.State(ctx, &pb.StateRequest{Cube: i.handle, Path: path})
		return err
	})
	if err != nil {
		return nil, err
	}
	doc, err := object("the state", answer.GetState())
	if err != nil {
		i.env.Degrade(fmt.Sprintf("service %s: %v", i.l.reg.Name, err))
		return nil, err
	}
	if doc == nil {
		return nil, nil
	}
	return doc, nil
}

// DeleteState makes the service delete state.
func (i *instance) DeleteState(ctx context.Context, path []string) error {
	if !i.l.description.GetDeleteState() {
		return service.ErrNoDeleter
	}
	return i.call(ctx, "DeleteState", stateTime, func(ctx context.Context) error {
		_, err := i.l.client.DeleteState(ctx, &pb.StateRequest{Cube: i.handle, Path: path})
		return err
	})
}

// Action makes the service run an action.
func (i *instance) Action(ctx context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if !i.l.description.GetActions() {
		return cube.ActionResult{}, fmt.Errorf("service %s has no actions: %w", i.l.reg.Name, cube.ErrUnsupported)
	}
	var answer *pb.ActionResponse
	err := i.call(ctx, "Action", actionTime, func(ctx context.Context) (err error) {
		answer, err = i.l.client.Action(ctx, &pb.ActionRequest{Cube: i.handle, Path: path, Input: input})
		return err
	})
	if err != nil {
		return cube.ActionResult{}, err
	}
	return result(answer)
}

// result checks the response of an action.
func result(answer *pb.ActionResponse) (cube.ActionResult, error) {
	var out cube.ActionResult
	doc, err := object("the output", answer.GetOutput())
	if err != nil {
		return out, err
	}
	if doc != nil {
		out.Output = doc
	}
	if len(answer.GetEdits()) > maxEdits {
		return out, invalid("%d edits, the limit is %d", len(answer.GetEdits()), maxEdits)
	}
	for _, e := range answer.GetEdits() {
		if len(e.GetPath()) == 0 || len(e.GetPath()) > maxPath {
			return out, invalid("the path of an edit has %d elements", len(e.GetPath()))
		}
		value, err := document("the value of an edit", e.GetValue())
		if err == nil && (value == nil) != e.GetDelete() {
			err = invalid("an edit either has a value or deletes")
		}
		if err != nil {
			return out, err
		}
		edit := cube.Edit{Delete: e.GetDelete(), Path: e.GetPath()}
		if value != nil {
			edit.Value = value
		}
		out.Edits = append(out.Edits, edit)
	}
	return out, nil
}

// PortChanged notifies the service.
func (i *instance) PortChanged(port string, up bool) {
	if i.l.description.GetPorts() {
		i.l.tell(&pb.ToService{Message: &pb.ToService_Port{Port: &pb.PortChanged{Cube: i.handle, Port: port, Up: up}}})
	}
}

// ParentChanged notifies the service.
func (i *instance) ParentChanged(p cube.Parent) {
	if !i.l.description.GetParent() {
		return
	}
	m := &pb.ParentChanged{Cube: i.handle, Name: p.Name, Peer: p.Peer, Netdev: p.Netdev, Index: uint32(p.Index), Mac: p.MAC,
		Addresses: texts(p.Addresses), Mtu: uint32(p.MTU), Leaves: p.Leaves}
	i.l.tell(&pb.ToService{Message: &pb.ToService_Parent{Parent: m}})
}

// PeerChanged notifies the service.
func (i *instance) PeerChanged(port string, p cube.Peer) {
	i.l.tell(&pb.ToService{Message: &pb.ToService_Peer{Peer: &pb.PeerChanged{Cube: i.handle, Port: port, Name: p.Name, Netdev: p.Netdev,
		Index: uint32(p.Index), Mac: p.MAC, Addresses: texts(p.Addresses), Mtu: uint32(p.MTU), Speed: p.Speed}}})
}

// LinkChanged notifies the service.
func (i *instance) LinkChanged(port string, works bool) {
	i.l.tell(&pb.ToService{Message: &pb.ToService_Link{Link: &pb.LinkChanged{Cube: i.handle, Port: port, Up: works}}})
}

func texts(prefixes []netip.Prefix) (out []string) {
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return out
}
