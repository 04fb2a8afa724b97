// SPDX-License-Identifier: Apache-2.0

// Command rerun is run by `make test`, `make test-again` and `make flaky`, from the top of the repository:
//
//	rerun run NAME [FLAG...] -- PACKAGE...   go test, recorded as NAME in .cache/test
//	rerun again NAME...                      what failed in these runs, alone and twice
//	rerun flaky [FLAG...] [PACKAGE.TEST...]  tests under load until they fail
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/polycube/polycube/test/rerun"
)

const usage = "rerun: usage: rerun run NAME [FLAG...] -- PACKAGE... | again NAME... | flaky [FLAG...] [PACKAGE.TEST...]"

func main() {
	exit, err := do(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "rerun:", err)
		exit = max(exit, 1)
	}
	os.Exit(exit)
}

func do(args []string) (int, error) {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, usage)
		return 2, nil
	}
	switch verb, args := args[0], args[1:]; {
	case verb == "run" && slices.Index(args, "--") > 0:
		packages := slices.Index(args, "--")
		return rerun.Do(rerun.Dir, args[0], rerun.Run{Flags: args[1:packages], Packages: args[packages+1:]}, os.Stdout)
	case verb == "again" && len(args) > 0:
		return rerun.Again(rerun.Dir, args, os.Stdout)
	case verb == "flaky":
		flags := flag.NewFlagSet("rerun flaky", flag.ExitOnError)
		l := rerun.Load{}
		flags.DurationVar(&l.For, "for", 10*time.Minute, "repeat each test for so long")
		flags.IntVar(&l.Runs, "runs", 0, "and at most so often; 0 is any number")
		flags.IntVar(&l.Copies, "copies", 2*runtime.NumCPU(), "copies of the test at once")
		flags.IntVar(&l.Burners, "burners", runtime.NumCPU(), "threads that only take processor time")
		flags.StringVar(&l.Race, "race", "", "packages under the race detector (regular expression)")
		_ = flags.Parse(args) // it exits
		return l.Until(rerun.Dir, flags.Args(), os.Stdout)
	}
	fmt.Fprintln(os.Stderr, usage)
	return 2, nil
}
