// SPDX-License-Identifier: Apache-2.0

// Package trial loads the programs of a service before it has cubes: as they would be linked for a cube of each kind,
// at each hook, with maps and a framework that belong to the trial alone. Nothing is pinned or attached, and no Plane
// is needed.
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
	// External marks an external service. Its programs are not tried inline or in namespaces, because its cubes are
	// never inlined (see outsider) and cannot have a namespace: the trial would refuse programs that are never
	// linked.
	External bool
	// Brief tries a cube twice at each hook, not inlined: once with the defaults, and once with every constant at
	// another value and in another position.
	Brief bool
	// Hooks are the hooks to try; nil means all for which the service has objects.
	Hooks []cube.Hook
	// Frame returns for how many bytes of stack a function with some bytes counts; nil means as on this kernel.
	Frame func(bytes int) int
}

// Limits of a trial. The object, which is not trusted, determines how much there is to try.
const (
	trialLoads    = 2  // at a time
	trialRows     = 64 // combinations
	trialSwitches = 48 // constants that differ from their defaults
	trialValues   = 32 // values of one constant
)

// Report is the result of a trial.
type Report struct {
	// Programs counts loaded programs, Same those skipped because an identical program was loaded before.
	Programs, Same int
	// Combinations counts the combinations of constants, positions and modes tried at the hook with the most of
	// them. Untried counts the pairs that did not fit in the combinations, and the values beyond the limits.
	Combinations, Untried int
	// Verified is the number of instructions that the verifier processed for all programs.
	Verified int
	Took     time.Duration
	// Loads are the programs by hook, position, role and mode, each with the constants for which the verifier
	// processed the most instructions.
	Loads []Load
	// NotInlined says why programs cannot be inlined. That is not an error: they stay functions.
	NotInlined string
}

// Load is a program that was loaded in a trial.
type Load struct {
	Hook cube.Hook
	// At describes in words what the cube is connected to.
	At   string
	Role link.Role
	Mode link.Mode
	// Constants are those that differ from their defaults, in words.
	Constants string
	// Instructions and Verified are what the program costs.
	Instructions, Verified int
	// Stack is the most that a program of this kind takes, in bytes, and Deepest are the constants of that program.
	Stack   int
	Deepest string
	Took    time.Duration
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

// Unwrap marks the service as the cause, unless the verifier refuses the framework's code.
func (r *Error) Unwrap() []error {
	if no := refusal.As(r.Err); no != nil && no.Ours() {
		return []error{r.Err}
	}
	return []error{cube.ErrInvalid, r.Err}
}

// anyRole is the role in an error that concerns all programs of a cube.
const anyRole link.Role = 0xff

// ErrUntried marks a trial that came to nothing for reasons that are not the service's.
var ErrUntried = errors.New("the trial load of the programs failed")

// Try loads the programs of a service without a Plane. The first one that is refused is returned as an Error.
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

// Like are the settings with which a Plane links.
type Like struct {
	Objects map[cube.Hook]*link.Object // the framework's
	Kernel  kernel.Features
	Mode    segments.Mode
	State   *state.State // its services
}

// TryLike tries programs linked with the settings of a Plane.
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
		r := &trier{t: t, hook: h, mode: as.Mode, service: service, frame: t.Frame, report: &report}
		if r.frame == nil {
			r.frame = as.Kernel.Frame
		}
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
	frame   func(bytes int) int

	mu     sync.Mutex
	report *Report
	seen   map[[32]byte]bool // programs that were loaded
}

// attempt is a cube of a kind, with constants, in a mode.
type attempt struct {
	at placement
	// values are the values of the object's switches and, last, of the log level, by number.
	values []int
	mode   link.Mode
}

// modes are the modes in which the Plane would link the service's programs.
func (r *trier) modes() []link.Mode {
	switch {
	case r.mode == segments.ModeInline:
		return []link.Mode{link.Inline}
	case r.mode == segments.ModeCall || r.t.External:
		return []link.Mode{link.Call}
	}
	return []link.Mode{link.Call, link.Inline}
}

// trialLevels are the log levels to try, the default first: one with all log lines and one with none.
var trialLevels = []graph.LogLevel{graph.LogInfo, graph.LogTrace, graph.LogOff}

// attempts lists what to try: the defaults in each position and mode, then combinations that cover each pair of values
// of constants, positions and modes. In call mode a function is verified by itself, so the position hardly matters to
// it; inline, the surrounding code does.
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

// levels are the number of values of each switch and of the log level.
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

// run makes all attempts and returns the first error.
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

// reduce removes from a refusal what does not contribute to it: if the mode, the position or a constant does not
// matter, it is replaced by the value that is tried first.
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
	members, err := segments.NewMembers()
	if err != nil {
		return r.fault(a, anyRole, err)
	}
	defer func() { _ = members.Close() }()
	own := segments.Maps{Arrays: arrays, Rodata: rodata, Members: members}
	specs, err := r.m.Specs(c, own, a.mode)
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
		if skip && r.again(printOf(specs[key], c, own)) {
			continue
		}
		if err := r.load(a, key, specs[key]); err != nil {
			return err
		}
	}
	return nil
}

// again records a program, and reports whether it was loaded before.
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

// load loads one program and closes it.
func (r *trier) load(a attempt, key segments.Program, spec *ebpf.ProgramSpec) error {
	began := time.Now()
	prog, cost, err := refusal.Load(spec, r.frame)
	if err != nil {
		a.at.hook = key.Hook // the program of a companion is a different one
		return r.fault(a, key.Role, err)
	}
	took := time.Since(began)
	if err := prog.Close(); err != nil {
		return r.fault(a, key.Role, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Programs++
	r.report.Verified += cost.Verified
	mode := a.mode
	if key.Role == link.OnResume {
		mode = link.Call // the same whatever the mode of the others
	}
	constants := r.words(a.values)
	r.report.heaviest(Load{key.Hook, a.at.name, key.Role, mode, constants,
		cost.Instructions, cost.Verified, cost.Stack, constants, took})
	return nil
}

// heaviest keeps a load if no load of its kind took more instructions, and its stack if none took more.
func (r *Report) heaviest(l Load) {
	for i := range r.Loads {
		is := &r.Loads[i]
		if is.Hook != l.Hook || is.At != l.At || is.Role != l.Role || is.Mode != l.Mode {
			continue
		}
		if is.Stack > l.Stack {
			l.Stack, l.Deepest = is.Stack, is.Deepest
		} else {
			is.Stack, is.Deepest = l.Stack, l.Deepest
		}
		if l.Verified > is.Verified {
			*is = l
		}
		return
	}
	r.Loads = append(r.Loads, l)
}

// fault says which side caused an error. A lack of memory or of permission is not the service's fault.
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
