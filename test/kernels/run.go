// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/polycube/polycube/test/kernels/guest"
)

// modules are loaded in every machine: a test in its own network namespace cannot load them. Open vSwitch's is not
// among them: on Linux 6.1 it reassembles fragments in every namespace, and the tests run it in user space.
var modules = strings.Fields(`veth tun bridge br_netfilter 8021q bonding dummy vrf macvlan vxlan ifb
	sch_ingress sch_netem sch_htb sch_fq_codel cls_bpf cls_matchall cls_u32 cls_flower act_bpf act_mirred act_gact act_police
	nf_tables nft_chain_nat nft_ct nft_masq nft_nat nft_redir nft_log nft_objref nft_reject_inet
	nf_flow_table nft_flow_offload nf_conntrack xfrm_user sctp ip_vs tls`)

// Options of a run.
type Options struct {
	// Checkout is the tree under test, with everything built; Scratch a folder for temporary files of a run.
	Checkout, Scratch string
	Kernels           []Kernel
	// Jobs run on each kernel, divided among machines that boot it.
	Jobs [][]Job
	Env  []string
	// Cables is the number of cables between the two machines of a kernel: the netdevs eth0, eth1 and so on of both. The
	// other end of eth0 is the last one.
	Cables int
	// OwnClock has the clocks of machines stand still while the host does something else.
	OwnClock bool
	// Modules are loaded in place of those of other runs, if there are any.
	Modules []string
	// Packages are in the root in addition to those of all runs.
	Packages []string
	// Side is the number of machines that run in parallel, those of one kernel first. Each keeps one CPU busy.
	Side int
	// Within is when a machine is stopped.
	Within   time.Duration
	Progress io.Writer
}

// Report is the result of a run on one kernel.
type Report struct {
	Kernel   Kernel
	Outcomes []*Outcome
	// Faults are empty when all is well.
	Faults []string
	Notes  []string
	// Wrote is the output of the programs, by job.
	Wrote map[string]string
	// Took is the duration, Used the CPU time in it.
	Took, Used time.Duration
}

// heartbeat is the interval in which a run reports its progress.
const heartbeat = 20 * time.Second

// Run boots kernels and runs the jobs in them. An error says that a run was impossible; results are in the reports.
func (c *Cache) Run(ctx context.Context, o Options) (reports []Report, err error) {
	if o.Cables > 0 && (len(o.Jobs) != 2 || o.Side < 2) {
		return nil, fmt.Errorf("cables connect two machines that run at the same time, not %d, %d at a time", len(o.Jobs), o.Side)
	}
	if _, err := exec.LookPath(emulators[c.arch][0]); err != nil {
		return nil, fmt.Errorf("%w: scripts/deps.sh kernels installs it", err)
	}
	root, err := c.Root(ctx, o.Packages...)
	if err != nil {
		return nil, err
	}
	files := make([]kernelFiles, len(o.Kernels))
	for i, k := range o.Kernels {
		if files[i], err = c.files(ctx, k); err != nil {
			return nil, err
		}
	}
	scratch, err := os.MkdirTemp(o.Scratch, "run-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	c.say("building the tests")
	built, err := c.build(ctx, o.Checkout, scratch, slices.Concat(o.Jobs...))
	if err != nil {
		return nil, err
	}
	trees := make([]string, len(o.Jobs))
	for i, jobs := range o.Jobs {
		trees[i] = filepath.Join(scratch, fmt.Sprintf("tree%d.img", i))
		if err := built.disk(ctx, trees[i], o.plan(jobs)); err != nil {
			return nil, err
		}
	}
	machines := make([][]machine, len(o.Kernels))
	for i := range machines {
		for n, tree := range trees {
			dir := filepath.Join(scratch, fmt.Sprintf("%d.%d", i, n))
			if err := os.Mkdir(dir, 0o755); err != nil {
				return nil, err
			}
			machines[i] = append(machines[i], machine{arch: c.arch, kernel: files[i], root: root, tree: tree, init: built.init, dir: dir, within: o.Within,
				cables: cables(scratch, i, n, o.Cables), ownClock: o.OwnClock})
		}
	}
	return o.bootAll(ctx, machines), ctx.Err()
}

// bootAll boots the machines of each kernel, in their order and as many side by side as there may be.
func (o Options) bootAll(ctx context.Context, machines [][]machine) []Report {
	parts := make([][]Report, len(machines))
	said := &shared{to: o.Progress}
	free := make(chan struct{}, max(1, o.Side))
	var all sync.WaitGroup
	for i, of := range machines {
		parts[i] = make([]Report, len(of))
		pair, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		for n := range of {
			free <- struct{}{}
			all.Go(func() {
				defer func() { <-free }()
				parts[i][n] = o.boot(pair, o.Kernels[i], o.Jobs[n], &of[n], said)
				if o.Cables > 0 && len(parts[i][n].Faults) > 0 {
					stop(errors.New("stopped, since the machine at the other end of the cables has failed"))
				}
			})
		}
	}
	all.Wait()
	reports := make([]Report, len(machines))
	for i := range reports {
		reports[i] = joined(parts[i])
	}
	return reports
}

// joined merges the reports of machines with the same kernel.
func joined(parts []Report) Report {
	all := parts[0]
	for _, r := range parts[1:] {
		all.Outcomes = append(all.Outcomes, r.Outcomes...)
		all.Faults = append(all.Faults, r.Faults...)
		for _, note := range r.Notes {
			if !slices.Contains(all.Notes, note) {
				all.Notes = append(all.Notes, note)
			}
		}
		for job, text := range r.Wrote { // a package may have tests in each
			all.Wrote[job] += text
		}
		all.Took = max(all.Took, r.Took)
		all.Used += r.Used
	}
	return all
}

func (o Options) plan(jobs []Job) guest.Plan {
	p := guest.Plan{Modules: modules, Env: o.Env}
	if o.Modules != nil {
		p.Modules = o.Modules
	}
	for _, j := range jobs {
		p.Steps = append(p.Steps, j.step())
	}
	return p
}

// boot runs jobs in one machine.
func (o Options) boot(ctx context.Context, k Kernel, jobs []Job, m *machine, said *shared) Report {
	start := time.Now()
	j := newJudge(jobs, func(t *Outcome) {
		said.line("%s: %s: %s failed:\n%s", k.Release, t.Job, t.Test, lastLines(t.Output, 12))
	})
	stop := said.every(heartbeat, func() string {
		return fmt.Sprintf("%s: %.0f s: %s", k.Release, time.Since(start).Seconds(), j.progress())
	})
	var faults []string
	fault := func(err error) {
		if err != nil && !slices.Contains(faults, err.Error()) {
			faults = append(faults, err.Error())
		}
	}
	err := m.run(ctx, func(f guest.Frame) { fault(j.take(ctx, f)) })
	fault(errors.Join(err, j.endConverter()))
	stop()
	r := Report{Kernel: k, Outcomes: j.order, Faults: append(faults, j.faults()...), Notes: j.notes, Wrote: map[string]string{}, Took: time.Since(start), Used: m.used}
	for name, text := range j.wrote {
		r.Wrote[name] = text.String()
	}
	said.line("%s: ended after %.0f s: %s, %d faults", k.Release, r.Took.Seconds(), j.progress(), len(r.Faults))
	return r
}

// shared is the common output of several machines' progress.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.to, "kernels: "+format+"\n", args...)
}

// every repeats a message until the returned function is called.
func (s *shared) every(d time.Duration, what func() string) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.line("%s", what())
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}
