// SPDX-License-Identifier: Apache-2.0

// Command kernels boots kernels in an emulator and runs tests in them.
//
//	kernels [-kernels 6.1,6.12] short            the named tests
//	kernels [-kernels all] long                  everything that needs no clock
//	kernels -kernels 6.12 test cubes/nat [TEST...]
//	kernels -kernels 6.12 -own-clock test cubes/policer TestMarksKeepTCPAtTheRate
//	kernels -kernels 6.12 exec COMMAND           a shell command in the checkout
//	kernels -kernels 6.12 -v evnf                a chain of network functions on two machines, behind netdevs of virtio
//	kernels [-cuts 20] [-seed N] powercut        cut the power of a machine with a store, and look what is left
//	kernels -arch arm64 build FOLDER             the programs for another architecture
//	kernels list                                 what apt offers
//	kernels table RESULTS...                     put the tables of results (-results) into docs/kernels.md
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/polycube/polycube/test/kernels"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/pace"
)

type flags struct {
	kernels, arch, cache, results string
	scale                         float64
	side                          int
	within                        time.Duration
	refresh, verbose, ownClock    bool
	cuts                          int
	seed                          uint64
}

func main() {
	var f flags
	flag.StringVar(&f.kernels, "kernels", "", "series (6.1,6.12: the newest of each) or releases; all: each that apt offers (default: all for long, 6.1,6.12 otherwise)")
	flag.StringVar(&f.arch, "arch", runtime.GOARCH, "architecture, amd64 or arm64")
	flag.StringVar(&f.cache, "cache", ".cache/kernels", "where roots and kernels are kept")
	flag.StringVar(&f.results, "results", "", "file for the results, as JSON")
	flag.Float64Var(&f.scale, "scale", 20, "how many times longer a test waits than on a machine of its own")
	flag.IntVar(&f.side, "side", 2, "how many machines run side by side; each keeps a processor busy")
	flag.DurationVar(&f.within, "within", 0, "when a machine is stopped (default: 15m for short, 60m otherwise)")
	flag.BoolVar(&f.refresh, "refresh", false, "ask apt which kernels there are, even if it was asked lately")
	flag.BoolVar(&f.ownClock, "own-clock", false, "the machine's clock stands still while the host does something else, for tests of rates")
	flag.BoolVar(&f.verbose, "v", false, "print what programs write")
	flag.IntVar(&f.cuts, "cuts", 20, "powercut: how often the power goes, for each way to mount the file system")
	flag.Uint64Var(&f.seed, "seed", uint64(time.Now().UnixNano()), "powercut: repeats the choices of a run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, f, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags, args []string) error {
	if len(args) == 0 {
		return errors.New("say what to run: short, long, evnf, test, exec, powercut, build, list or table")
	}
	if args[0] == "table" {
		reports, err := kernels.LoadReports(args[1:])
		if err != nil {
			return err
		}
		return kernels.WriteTables("docs/kernels.md", reports)
	}
	cache, err := kernels.OpenCache(f.cache, f.arch, os.Stderr)
	if err != nil {
		return err
	}
	if args[0] == "build" && len(args) == 2 {
		return cache.BuildPrograms(ctx, ".", args[1])
	}
	offered, err := cache.Kernels(ctx, f.refresh)
	if err != nil {
		return err
	}
	if args[0] == "list" {
		for _, k := range offered {
			fmt.Println(k.Release, k.Version)
		}
		return nil
	}
	wanted, err := choose(offered, f.kernels, args[0])
	if err != nil {
		return err
	}
	if args[0] == "powercut" {
		return f.cutPower(ctx, cache, wanted)
	}
	jobs, err := jobsOf(args, f.within)
	if err != nil {
		return err
	}
	o := kernels.Options{
		Checkout: ".", Scratch: f.cache, Kernels: wanted, Jobs: jobs, Side: f.side, Within: f.limit(args[0]), Progress: os.Stderr,
		Env:      []string{pace.Variable + "=" + strconv.FormatFloat(f.scale, 'g', -1, 64), need.Variable + "=" + need.List()},
		OwnClock: f.ownClock,
	}
	if f.ownClock {
		o.Env = append(o.Env, pace.OwnClockVariable+"=1")
	}
	switch args[0] {
	case "evnf":
		o = kernels.EVNF(o)
	case "long": // the comparisons of firewalls would take hours
	default:
		o.Packages = []string{"iptables"}
	}
	reports, err := cache.Run(ctx, o)
	return errors.Join(err, f.report(reports))
}

func (f flags) cutPower(ctx context.Context, cache *kernels.Cache, wanted []kernels.Kernel) error {
	for _, k := range wanted {
		o := kernels.PowerCuts{Checkout: ".", Scratch: f.cache, Kernel: k, Cuts: f.cuts, Seed: f.seed, Progress: os.Stderr}
		if err := cache.CutPower(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (f flags) limit(form string) time.Duration {
	switch {
	case f.within != 0:
		return f.within
	case form == "short":
		return 35 * time.Minute // a guard against hangs: they take 5 to 16, as the machine is fast or slow
	}
	return time.Hour
}

func jobsOf(args []string, within time.Duration) ([][]kernels.Job, error) {
	if within == 0 {
		within = time.Hour
	}
	switch form := args[0]; {
	case form == "short":
		return [][]kernels.Job{kernels.Short()}, nil
	case form == "long":
		return kernels.Long(), nil
	case form == "evnf":
		return nil, nil // its options have them
	case form == "test" && len(args) > 1:
		return [][]kernels.Job{{{Package: args[1], Tests: args[2:], Within: within}}}, nil
	case form == "exec" && len(args) > 1:
		return [][]kernels.Job{{{Name: "exec", Program: []string{"bash", "-c", strings.Join(args[1:], " ")}, Within: within}}}, nil
	}
	return nil, fmt.Errorf("unknown form %q: short, long, evnf, test PACKAGE [TEST...], exec COMMAND, powercut, build FOLDER, list or table", args)
}

// choose picks kernels: of a series, the newest.
func choose(offered []kernels.Kernel, names, form string) ([]kernels.Kernel, error) {
	if names == "all" || names == "" && form == "long" {
		return offered, nil
	}
	if names == "" {
		names = "6.1,6.12"
	}
	var out []kernels.Kernel
	for name := range strings.SplitSeq(names, ",") {
		at := -1
		for i, k := range slices.All(offered) { // oldest first
			if name == k.Release || name == k.Series() {
				at = i
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("apt offers no kernel %s, but %v", name, offered)
		}
		out = append(out, offered[at])
	}
	return out, nil
}

// report prints the results, and returns an error unless all succeeded.
func (f flags) report(reports []kernels.Report) error {
	bad := 0
	for _, r := range reports {
		if f.verbose {
			for _, text := range r.Wrote {
				fmt.Print(text)
			}
		}
		for _, note := range r.Notes {
			fmt.Printf("%s: note: %s\n", r.Kernel.Release, note)
		}
		for _, fault := range r.Faults {
			fmt.Printf("%s: %s\n\n", r.Kernel.Release, fault)
		}
		n := map[string]int{}
		for _, o := range r.Outcomes {
			n[o.Result]++
		}
		verdict := "passed"
		if len(r.Faults) > 0 {
			verdict = "FAILED"
			bad++
		}
		tests := ""
		if len(r.Outcomes) > 0 { // a demo has none
			tests = fmt.Sprintf("%d tests passed, %d failed, %d skipped, ", n["pass"], n["fail"], n["skip"])
		}
		fmt.Printf("%s: %s: %s%d faults, %.0f s, %.0f s of a processor\n", r.Kernel.Release, verdict, tests, len(r.Faults), r.Took.Seconds(), r.Used.Seconds())
	}
	if f.results != "" {
		if err := kernels.SaveReports(f.results, reports); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d kernels failed", bad, len(reports))
	}
	return nil
}
