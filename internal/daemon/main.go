// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/check"
	"github.com/polycube/polycube/internal/slowpath"
)

// Exit statuses of polycubed.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64
)

// Main runs polycubed with the words of its command line and returns the exit status. Signals are caught before
// anything else, so that one during the start ends it in an orderly way.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	// A second signal ends a daemon that hangs while it stops.
	context.AfterFunc(ctx, stop)
	// The reader of the output or the log may disconnect: that is no reason to exit.
	signal.Ignore(unix.SIGPIPE)
	slowpath.SpareThreads()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	defer signal.Stop(hup)
	return command(ctx, args, wire(), stdout, stderr, hup)
}

// command is Main without the process.
func command(ctx context.Context, args []string, p parts, stdout, stderr io.Writer, hup <-chan os.Signal) int {
	o, err := ParseOptions(args, stdout)
	var usage usageError
	switch {
	case errors.Is(err, errShown):
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "polycubed: %v (see polycubed --help)\n", err)
		return exitUsage
	case o.Check:
		return checkMachine(ctx, check.This(), o, stdout, stderr)
	case len(o.CheckService) > 0:
		return checkService(ctx, check.This(), o, stdout, stderr)
	case o.CheckConfig:
		err = checkOptions(o, stdout)
	case o.Cleanup:
		err = cleanup(o, p, stdout, stderr)
	case o.Background && !inBackground() && os.Getenv("NOTIFY_SOCKET") == "":
		return detach(ctx, args, stdout, stderr)
	default:
		err = start(ctx, o, p, stdout, stderr, hup)
	}
	if err != nil {
		fmt.Fprintf(stderr, "polycubed: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// checkOptions handles --check-config: mistakes were found before, except those in the TLS files.
func checkOptions(o Options, stdout io.Writer) error {
	if err := checkCertificates(o); err != nil {
		return err
	}
	for _, w := range o.Warnings {
		if _, err := fmt.Fprintln(stdout, "warning:", w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(stdout, "the options are valid")
	return err
}

// start runs the daemon in this process.
func start(ctx context.Context, o Options, p parts, stdout, stderr io.Writer, hup <-chan os.Signal) error {
	if inBackground() {
		if err := enterBackground(); err != nil {
			return fmt.Errorf("run in the background: %w", err)
		}
	}
	if o.ConfigFile != "" {
		if err := makeConfig(o.ConfigFile); err != nil {
			o.Warnings = append(o.Warnings, err.Error())
		}
	}
	return run(ctx, o, p, stdout, stderr, hup)
}
