// SPDX-License-Identifier: Apache-2.0

// Command bench measures the data plane and the daemon compared with the kernel's own forwarding, prints the results
// and writes docs/performance.md. It runs as root, in its own namespaces.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/polycube/polycube/test/lint/reference"
	"github.com/polycube/polycube/test/perf"
	"github.com/polycube/polycube/test/perf/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("not all that was promised was measured")

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "parts to run, separated by commas: "+strings.Join(perf.PartNames(), ", "))
	group := flags.String("group", "", "group of parts to run, with a section of its own in docs/performance.md: "+strings.Join(perf.GroupNames(), ", "))
	rounds := flags.Int("rounds", 0, "rounds of each part; 0: the part's own number")
	quick := flags.Bool("quick", false, "measure less of everything")
	out := flags.String("o", "", "write the results to this file as Markdown; a whole run that is not quick writes docs/performance.md, and costs of helpers go to docs/reference/helpers.md")
	check := flags.Bool("check", false, "exit with 1 if a promise is not kept")
	root := flags.String("root", ".", "directory of the repository")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes network namespaces and loads programs")
	}
	var parts []string
	if *only != "" {
		parts = strings.Split(*only, ",")
	}
	r := &perf.Run{Config: perf.Config{Group: *group, Rounds: *rounds, Quick: *quick, Root: *root, Progress: os.Stdout}}
	if err := r.Do(ctx, parts); err != nil {
		return err
	}
	fmt.Printf("\n%s", report.Checks(r.Checks).Markdown())
	if *out == "" && *only == "" && !*quick {
		*out = filepath.Join(*root, "docs", "performance.md")
	}
	if *out != "" {
		text, chart, err := document(r, *out, repeatable(flags))
		if err == nil {
			err = os.WriteFile(*out, []byte(text), 0o644)
		}
		if chart != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(*out), perf.ChartName), []byte(chart), 0o644))
		}
		if err != nil {
			return fmt.Errorf("writing the results: %w", err)
		}
	}
	if len(r.Costs) > 0 && !*quick {
		if err := reference.Write(*root, reference.Figures{Costs: r.Costs, Weights: r.Weights}); err != nil {
			return err
		}
	}
	if n := report.Misses(r.Checks); n > 0 && *check {
		return fmt.Errorf("%d of %d checks: %w", n, len(r.Checks), errMissed)
	}
	return nil
}

// document is the file to write, with what other runs wrote to it.
func document(r *perf.Run, path string, args []string) (text, chart string, err error) {
	old, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if r.Group != "" {
		return r.GroupDocument(string(old), args), "", err
	}
	text, chart = r.Document(args)
	return perf.WithGroups(text, string(old)), chart, err
}

// repeatable lists the options that a reader needs to measure the same.
func repeatable(flags *flag.FlagSet) []string {
	var args []string
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "o" && f.Name != "root" && f.Name != "check" && f.Name != "group" {
			args = append(args, fmt.Sprintf("-%s=%s", f.Name, f.Value))
		}
	})
	return args
}
