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

Classifies the flows of a cube of service edpi with nDPI, and writes what it finds into the tables of the
cube, whose policies follow it. Flows that are classified keep their policies when this program ends. list
prints the names of all protocols and categories.

Options, which a configuration file may have, too, as "option: value":
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
	f.StringVar(&o.Cube, "cube", "", "the cube of service edpi")
	f.StringVar(&o.Protocols, "protocols", "", "file with protocols of your own, in the format of nDPI")
	f.StringVar(&o.Categories, "categories", "", "file with categories of addresses and names, in the format of nDPI")
	f.IntVar(&o.Flows, "flows", 65536, "flows in memory at most; beyond them, the one that was silent for longest is decided")
	f.IntVar(&o.Packets, "packets", 24, "packets of a flow after which it is decided at the latest; the cube's inspect-packets, if that is less")
	f.StringVar(&o.Log, "log", "", "file for flows and risks as lines of JSON, as EVE of Suricata has them; SIGHUP opens it again")
	f.StringVar(&o.IPFIX, "ipfix", "", "HOST:PORT of a collector that gets flows by IPFIX (RFC 7011) over UDP")
	f.Uint32Var(&o.Domain, "observation-domain", 1, "observation domain ID of IPFIX")
	f.StringVar(&o.Socket, "socket", "/run/polycube/polycubed.sock", "socket of polycubed")
	f.StringVar(&o.BPFFS, "bpffs", "/sys/fs/bpf/polycube", "directory of polycubed in a BPF file system")
	f.StringVar(&o.Control, "control", "/run/polycube-ndpi/control.sock", "Unix socket for polycube-ndpi status")
	f.StringVar(&o.Metrics, "metrics", "", "TCP address for Prometheus, such as 127.0.0.1:9104 (default: none)")
	f.StringVar(&o.Level, "loglevel", "info", "debug, info, warn or error")
	f.StringVar(file, "config", "", "YAML file with these options; the command line overrides it")
	f.BoolVar(&o.CheckConfig, "check-config", false, "check the options and the files that they name, and start nothing")
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
		return o, "", usageError{fmt.Errorf("unexpected word %q", f.Arg(0))}
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
		return errors.New("--cube is missing: name a cube of service edpi")
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
