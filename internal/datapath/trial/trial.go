// SPDX-License-Identifier: Apache-2.0

// Package trial loads the programs of a service before it has cubes: as they would be linked for a cube of each kind, at
// each hook, with maps and a framework that are the trial's alone. Nothing is pinned or attached, and no Plane is needed.
package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/covering"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/refusal"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/state"
	"github.com/polycube/polycube/internal/kernel"
)

// Trial says what to load.
type Trial struct {
	Service     string
	Objects     map[cube.Hook][]byte
	Transparent bool
	// External marks an external service. Its programs are not tried inline and in namespaces, since
	// its cubes are neither inlined (see outsider) nor can they have a namespace: a refusal would be of programs that are
	// never made.
	External bool
	// Brief tries a cube twice at each hook, not inlined: with the defaults, and with every constant at another value in
	// another place.
	Brief bool
	// Hooks are those to try at; nil is all that the service has objects for.
	Hooks []cube.Hook
}

// Bounds of a trial. Foreign objects decide how much there is to do.
const (
	trialLoads    = 2  // at a time
	trialRows     = 64 // combinations
	trialSwitches = 48 // constants that are not left at their defaults
	trialValues   = 32 // of one constant
)

// Report is what a trial came to.
type Report struct {
	// Programs is how many were loaded, Same how many were not, because they would have been the same again.
	Programs, Same int
	// Combinations of constants, places and modes were tried at the hook with most of them. Untried counts the pairs that
	// found no room in the combinations, and the values beyond the bounds.
	Combinations, Untried int
	// Verified is the number of instructions that the verifier looked at for all programs.
	Verified int
	Took     time.Duration
	// Loads are the programs by hook, place, role and mode, each with the constants at which the verifier looked at most.
	Loads []Load
	// NotInlined says why programs cannot be inlined, which is no fault: they stay functions.
	NotInlined string
}

// Load is a program that was loaded on trial.
type Load struct {
	Hook cube.Hook
	// At says what the cube is connected to, in words.
	At   string
	Role link.Role
	Mode link.Mode
	// Constants are those that differ from their defaults, in words.
	Constants              string
	Instructions, Verified int
	Took                   time.Duration
}

// Error is a program that could not be linked or that the kernel refused.
type Error struct {
	Service string
	Hook    cube.Hook
	At      string
	Role    link.Role
	Mode    link.Mode
	// Constants are those that differ from their defaults, in words.
	Constants string
	Err       error
}

func (r *Error) Error() string {
	what := map[link.Role]string{link.OnIngress: "ingress program", link.OnEgress: "egress program", link.OnResume: "resume program"}[r.Role]
	if what == "" {
		what = "programs"
	}
	with := "the default constants"
	if r.Constants != "" {
		with = r.Constants
	}
	return fmt.Sprintf("service %s: the %s at %s of %s, in %s mode, with %s, cannot be loaded: %v",
		r.Service, what, strings.ToUpper(r.Hook.String()), r.At, r.Mode, with, r.Err)
}

// Unwrap says that the service is at fault, unless the verifier refuses the framework's code.
func (r *Error) Unwrap() []error {
	if no := refusal.As(r.Err); no != nil && no.Ours() {
		return []error{r.Err}
	}
	return []error{cube.ErrInvalid, r.Err}
}

// anyRole is that of an error which concerns all programs of a cube.
const anyRole link.Role = 0xff

// ErrUntried marks a trial that came to nothing for reasons that are not the service's.
var ErrUntried = errors.New("the trial load of the programs failed")

// Try loads the programs of a service on trial, without a Plane; the first that is refused is an Error.
func Try(ctx context.Context, t Trial) (Report, error) {
	objects := map[cube.Hook]*link.Object{}
	for _, h := range abi.Hooks {
		var err error
		if objects[h], err = coreObject("core", h); err != nil {
			return Report{}, err
		}
	}
	features, err := kernel.Probe()
	if err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrUntried, err)
	}
	return TryLike(ctx, t, Like{objects, features, segments.ModeAuto, state.New(state.Options{})})
}

// Like is what a Plane links with.
type Like struct {
	Objects map[cube.Hook]*link.Object // the framework's
	Kernel  kernel.Features
	Mode    segments.Mode
	State   *state.State // its services
}

// TryLike links as a Plane would.
func TryLike(ctx context.Context, t Trial, as Like) (Report, error) {
	began := time.Now()
	var report Report
	service, err := state.ParseService(t.Service, t.Objects)
	if err != nil {
		return report, err
	}
	for _, h := range abi.Hooks {
		if service.Object(h) == nil || t.Hooks != nil && !slices.Contains(t.Hooks, h) {
			continue
		}
		r := &trier{t: t, hook: h, mode: as.Mode, service: service, report: &report}
		if err := r.run(ctx, as); err != nil {
			return report, err
		}
	}
	report.Took = time.Since(began)
	return report, nil
}

// trier tries a service at a hook.
type trier struct {
	t       Trial
	hook    cube.Hook
	mode    segments.Mode
	service *state.Service
	m       *segments.Maker // of the trial: with a framework and cubes without pins

	mu     sync.Mutex
	report *Report
	seen   map[[32]byte]bool // programs that were loaded
}

// attempt is a cube of a kind, with constants, in a mode.
type attempt struct {
	at placement
	// values are those of the object's switches and, last, of the level of logs, by number.
	values []int
	mode   link.Mode
}

// modes are those in which the Plane would link the service's programs.
func (r *trier) modes() []link.Mode {
	switch {
	case r.mode == segments.ModeInline:
		return []link.Mode{link.Inline}
	case r.mode == segments.ModeCall || r.t.External:
		return []link.Mode{link.Call}
	}
	return []link.Mode{link.Call, link.Inline}
}

// trialLevels are the levels of logs to try, the default first: with all lines and with none.
var trialLevels = []graph.LogLevel{graph.LogInfo, graph.LogTrace, graph.LogOff}

// attempts lists what to try: the defaults in each place and mode, then combinations with each pair of constants' values,
// places and modes. In call mode a function is verified for itself, so that the place hardly matters to it; inline, what
// is around it does.
func (r *trier) attempts() []attempt {
	var out []attempt
	placements, modes := r.placements(), r.modes()
	levels := r.levels()
	if r.t.Brief {
		other := make([]int, len(levels))
		for i := range other {
			other[i] = min(1, levels[i]-1)
		}
		r.report.Combinations = 2
		return []attempt{{placements[0], make([]int, len(levels)), modes[0]}, {placements[min(1, len(placements)-1)], other, modes[0]}}
	}
	for _, at := range placements {
		for _, m := range modes {
			out = append(out, attempt{at, make([]int, len(levels)), m})
		}
	}
	rows, missed := covering.Pairs(append(slices.Clip(levels), len(placements), len(modes)), trialRows)
	r.report.Combinations = max(r.report.Combinations, len(rows))
	r.report.Untried += missed
	for _, row := range rows[1:] {
		n := len(levels)
		out = append(out, attempt{placements[row[n]], row[:n], modes[row[n+1]]})
	}
	return out
}

// levels are how many values there are of each switch and of the level of logs.
func (r *trier) levels() []int {
	var out []int
	for i, s := range r.service.Object(r.hook).Switches {
		n := min(len(s.Values), trialValues)
		if i >= trialSwitches {
			n = 1
		}
		r.report.Untried += len(s.Values) - n
		out = append(out, n)
	}
	return append(out, len(trialLevels))
}

// words are the constants that differ from their defaults.
func (r *trier) words(values []int) string {
	var out []string
	for i, s := range r.service.Object(r.hook).Switches {
		if values[i] != 0 {
			out = append(out, s.Name+"="+s.Values[values[i]])
		}
	}
	if n := values[len(values)-1]; n != 0 {
		out = append(out, "loglevel="+map[graph.LogLevel]string{graph.LogTrace: "TRACE", graph.LogOff: "OFF"}[trialLevels[n]])
	}
	return strings.Join(out, ", ")
}

// run makes all attempts; of those that fail, it answers the first.
func (r *trier) run(ctx context.Context, as Like) error {
	m, done, err := r.maker(as)
	if err != nil {
		return r.fault(attempt{}, anyRole, err)
	}
	defer done()
	r.m, r.seen = m, map[[32]byte]bool{}
	list := r.attempts()
	var next, failed = 0, len(list)
	var why error
	take := func() (int, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		next++
		return next - 1, next <= failed
	}
	var wg sync.WaitGroup
	for range trialLoads {
		wg.Go(func() {
			for i, more := take(); more; i, more = take() {
				if err := r.attempt(ctx, list[i], true); err != nil {
					r.mu.Lock()
					if i < failed {
						failed, why = i, err
					}
					r.mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	var refusal *Error
	if errors.As(why, &refusal) {
		r.reduce(ctx, list[failed], refusal)
	}
	return why
}

// reduce takes out of a refusal what has no part in it: the mode, the place and each constant that does not matter become
// those that are tried first.
func (r *trier) reduce(ctx context.Context, a attempt, refusal *Error) {
	simpler := func(change func(*attempt)) {
		next := a
		next.values = slices.Clone(a.values)
		change(&next)
		var again *Error
		if errors.As(r.attempt(ctx, next, false), &again) {
			a, *refusal = next, *again
		}
	}
	if first := r.modes()[0]; a.mode != first {
		simpler(func(a *attempt) { a.mode = first })
	}
	if first := r.placements()[0]; a.at.name != first.name {
		simpler(func(a *attempt) { a.at = first })
	}
	for i := range a.values {
		if a.values[i] != 0 {
			simpler(func(a *attempt) { a.values[i] = 0 })
		}
	}
}

// attempt links a cube's programs and loads them; skip leaves out those that were loaded before.
func (r *trier) attempt(ctx context.Context, a attempt, skip bool) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("try the programs of service %s: %w", r.t.Service, err)
	}
	c, err := r.describe(a)
	if err != nil {
		return r.fault(a, anyRole, err)
	}
	rodata, err := segments.Freeze(c.Rodata)
	if err != nil {
		return r.fault(a, anyRole, err)
	}
	defer func() { _ = rodata.Close() }()
	arrays := map[cube.Hook]*ebpf.Map{}
	for _, h := range abi.Hooks {
		array, err := ebpf.NewMap(segments.ArraySpec)
		if err != nil {
			return r.fault(a, anyRole, err)
		}
		defer func() { _ = array.Close() }()
		arrays[h] = array
	}
	specs, err := r.m.Specs(c, arrays, rodata, a.mode)
	if r.mode == segments.ModeAuto && a.mode == link.Inline && (errors.Is(err, link.ErrNotInlinable) || errors.Is(err, link.ErrTooLarge)) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.report.NotInlined = err.Error()
		return nil
	}
	if err != nil {
		return r.fault(a, anyRole, err)
	}
	for _, key := range slices.SortedFunc(maps.Keys(specs), segments.Program.Compare) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("try the programs of service %s: %w", r.t.Service, err)
		}
		if skip && r.again(printOf(specs[key], c, rodata, arrays)) {
			continue
		}
		if err := r.load(a, key, specs[key]); err != nil {
			return err
		}
	}
	return nil
}

// again notes a program, and tells whether it was loaded before.
func (r *trier) again(print [32]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.seen[print]
	r.seen[print] = true
	if was {
		r.report.Same++
	}
	return was
}

// load loads one program and forgets it.
func (r *trier) load(a attempt, key segments.Program, spec *ebpf.ProgramSpec) error {
	began := time.Now()
	prog, err := refusal.Load(spec)
	if err != nil {
		a.at.hook = key.Hook // that of a companion is another one
		return r.fault(a, key.Role, err)
	}
	took := time.Since(began)
	verified := 0
	if info, err := prog.Info(); err == nil {
		n, _ := info.VerifiedInstructions()
		verified = int(n)
	}
	if err := prog.Close(); err != nil {
		return r.fault(a, key.Role, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Programs++
	r.report.Verified += verified
	mode := a.mode
	if key.Role == link.OnResume {
		mode = link.Call // as it is whatever the mode of the others
	}
	r.report.heaviest(Load{key.Hook, a.at.name, key.Role, mode, r.words(a.values), len(spec.Instructions), verified, took})
	return nil
}

// heaviest keeps a load if none of its kind was heavier.
func (r *Report) heaviest(l Load) {
	for i, is := range r.Loads {
		if is.Hook == l.Hook && is.At == l.At && is.Role == l.Role && is.Mode == l.Mode {
			if l.Verified > is.Verified {
				r.Loads[i] = l
			}
			return
		}
	}
	r.Loads = append(r.Loads, l)
}

// fault says whose an error is. What the kernel has no room or right for is not the service's.
func (r *trier) fault(a attempt, role link.Role, err error) error {
	own := []error{unix.ENOMEM, unix.EPERM, unix.EAGAIN, unix.EMFILE, unix.ENFILE, unix.EINTR, unix.ENOSYS}
	if refusal.As(err) == nil && slices.ContainsFunc(own, func(e error) bool { return errors.Is(err, e) }) {
		return fmt.Errorf("service %s: %w: %w", r.t.Service, ErrUntried, err)
	}
	if a.values == nil { // before any program
		return fmt.Errorf("service %s: %w: %w", r.t.Service, cube.ErrInvalid, err)
	}
	return &Error{Service: r.t.Service, Hook: a.at.hook, At: a.at.name, Role: role, Mode: a.mode, Constants: r.words(a.values), Err: err}
}
