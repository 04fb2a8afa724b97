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

	"github.com/polycube/polycube/internal/slowpath"
)

// Exit statuses of polycubed.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64
)

// Main runs polycubed with the words of its command line and returns the exit status.
// Signals are caught before anything else: one that comes during boot ends it in order.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	// A second signal ends a daemon that hangs while it stops.
	context.AfterFunc(ctx, stop)
	// Whoever read the output or the log may go: that is no reason to end.
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
	case o.Cleanup:
		err = cleanup(o, p, stdout, stderr)
	default:
		err = run(ctx, o, p, stdout, stderr, hup)
	}
	if err != nil {
		fmt.Fprintf(stderr, "polycubed: %v\n", err)
		return exitFailed
	}
	return exitOK
}
