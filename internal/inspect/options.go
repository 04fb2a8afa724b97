// SPDX-License-Identifier: Apache-2.0

package inspect

// The command line, and the configuration file, which has the same options.

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/spf13/pflag"

	"github.com/polycube/polycube/internal/ndpi"
	"github.com/polycube/polycube/internal/sidecar"
)

// Version is set by the Makefile.
var Version = "dev"

// Options are those of a run.
type Options struct {
	Cube, Protocols, Categories string
	Log, IPFIX                  string
	Domain                      uint32
	Flows, Packets              int
	Socket, BPFFS, Control      string
	Metrics, Level              string
	JSON, CheckConfig           bool

	// Severity is what Level says.
	Severity slog.Level
}

const usage = `usage: polycube-ndpi --cube NAME [options]
       polycube-ndpi status [--json] [--control SOCKET]
       polycube-ndpi list [--protocols FILE]

Classifies the flows of an edpi cube with nDPI, and writes the results to the cube's tables, where policies use
them. Classified flows keep their policies when this program exits. list prints the names of all protocols and
categories.

Options, also accepted in a configuration file as "option: value":
`

// errShown: there is nothing to run, the answer was printed.
var errShown = errors.New("shown")

// usageError is a mistake in the command line.
type usageError struct{ error }

// unfit are options that make no sense in a file.
var unfit = []string{"config", "check-config", "json", "version", "help"}

// flagSet declares the options.
func flagSet(o *Options, file *string, version, help *bool) *pflag.FlagSet {
	f := pflag.NewFlagSet("polycube-ndpi", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.StringVar(&o.Cube, "cube", "", "name of the edpi cube")
	f.StringVar(&o.Protocols, "protocols", "", "file with custom protocols, in nDPI's format")
	f.StringVar(&o.Categories, "categories", "", "file with categories of addresses and host names, in nDPI's format")
	f.IntVar(&o.Flows, "flows", 65536, "maximum number of flows in memory; beyond it, the flow that has been idle longest is decided")
	f.IntVar(&o.Packets, "packets", 24, "maximum number of packets before a flow is decided; the cube's inspect-packets applies if lower")
	f.StringVar(&o.Log, "log", "", "log file for flows and risks, in the JSON format of Suricata's EVE log; SIGHUP reopens it")
	f.StringVar(&o.IPFIX, "ipfix", "", "HOST:PORT of a collector to export flows to, by IPFIX (RFC 7011) over UDP")
	f.Uint32Var(&o.Domain, "observation-domain", 1, "IPFIX observation domain ID")
	f.StringVar(&o.Socket, "socket", "/run/polycube/polycubed.sock", "socket of polycubed")
	f.StringVar(&o.BPFFS, "bpffs", "/sys/fs/bpf/polycube", "polycubed's directory in a BPF file system")
	f.StringVar(&o.Control, "control", "/run/polycube-ndpi/control.sock", "Unix socket for polycube-ndpi status")
	f.StringVar(&o.Metrics, "metrics", "", "TCP address for Prometheus metrics, such as 127.0.0.1:9104 (default: none)")
	f.StringVar(&o.Level, "loglevel", "info", "debug, info, warn or error")
	f.StringVar(file, "config", "", "YAML file with these options; the command line overrides it")
	f.BoolVar(&o.CheckConfig, "check-config", false, "check the options and the files that they name, and exit")
	f.BoolVar(&o.JSON, "json", false, "print the status as JSON")
	f.BoolVarP(version, "version", "v", false, "print the versions of this program and of nDPI")
	f.BoolVarP(help, "help", "h", false, "print this help")
	return f
}

// ParseOptions reads a command line without the program's name. word is status, list or empty.
func ParseOptions(args []string, out io.Writer) (o Options, word string, err error) {
	var file string
	var version, help bool
	f := flagSet(&o, &file, &version, &help)
	if err := f.Parse(args); err != nil {
		return o, "", usageError{err}
	}
	switch {
	case help:
		fmt.Fprint(out, usage, f.FlagUsages())
		return o, "", errShown
	case version:
		fmt.Fprintf(out, "polycube-ndpi %s, nDPI %s\n", Version, ndpi.Version())
		return o, "", errShown
	}
	if file != "" {
		if err := sidecar.ReadFile(file, f, unfit...); err != nil {
			return o, "", usageError{err}
		}
	}
	switch {
	case f.NArg() == 1 && (f.Arg(0) == "status" || f.Arg(0) == "list"):
		return o, f.Arg(0), nil
	case f.NArg() > 0:
		return o, "", usageError{fmt.Errorf("unexpected argument %q", f.Arg(0))}
	case o.JSON:
		return o, "", usageError{errors.New("--json is accepted only by polycube-ndpi status")}
	}
	if err := o.finish(); err != nil {
		return o, "", usageError{err}
	}
	return o, "", nil
}

// finish checks the options and reads their texts.
func (o *Options) finish() error {
	switch {
	case o.Cube == "":
		return errors.New("--cube is missing: give the name of an edpi cube")
	case o.Flows < 16 || o.Flows > 4_000_000:
		return errors.New("--flows: from 16 to 4000000")
	case o.Packets < 1 || o.Packets > 24:
		return errors.New("--packets: from 1 to 24")
	}
	if o.IPFIX != "" {
		if _, _, err := net.SplitHostPort(o.IPFIX); err != nil {
			return fmt.Errorf("--ipfix: %w", err)
		}
	}
	if err := o.Severity.UnmarshalText([]byte(o.Level)); err != nil {
		return fmt.Errorf("--loglevel: %w", err)
	}
	return nil
}
