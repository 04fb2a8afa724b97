// SPDX-License-Identifier: Apache-2.0

package upf

// The command line, and the configuration file, which has the same options.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/polycube/polycube/internal/sidecar"
)

// Version is set by the Makefile.
var Version = "dev"

// Options configure a run.
type Options struct {
	Cube, Address, NodeID            string
	SMFs, Allow, Pools, Networks     []string
	GBR                              uint64
	T1, Heartbeat                    time.Duration
	N1                               int
	Socket, BPFFS, StateDir, Control string
	Metrics, Level                   string
	JSON, CheckConfig                bool

	// Listen, Peers, From, Prefixes and Severity are the parsed values of Address, SMFs, Allow, Pools and Level.
	Listen         netip.AddrPort
	Peers          []netip.AddrPort
	From, Prefixes []netip.Prefix
	Severity       slog.Level
}

const usage = `usage: polycube-upf --cube NAME --address ADDRESS [options]
       polycube-upf status [--json] [--control SOCKET]
       polycube-upf leave [--control SOCKET]

Controls a cube of service upf: it speaks PFCP (N4, 3GPP TS 29.244) with the SMFs of a 5G core, or the
control plane functions of a 4G core, and installs their sessions in the tables of the cube. Sessions
survive a restart of this program and of polycubed, and packets are forwarded meanwhile.

status shows the associations and sessions of a running polycube-upf. leave makes it ask all control plane
functions to release their associations, and refuse new ones until it is restarted.

Options, which may also be set in a configuration file, as "option: value":
`

// errShown: the requested text was printed, and nothing is to be run.
var errShown = errors.New("shown")

// usageError is a mistake in the command line.
type usageError struct{ error }

const port = 8805 // of PFCP

// flagSet declares the options.
func flagSet(o *Options, file *string, version, help *bool) *pflag.FlagSet {
	f := pflag.NewFlagSet("polycube-upf", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.StringVar(&o.Cube, "cube", "", "name of the cube of service upf")
	f.StringVar(&o.Address, "address", "", "local address of N4, with a port if it is not 8805")
	f.StringVar(&o.NodeID, "node-id", "", "node ID: an IP address or a domain name (default: --address)")
	f.StringArrayVar(&o.SMFs, "smf", nil, "address of a control plane function to send an Association Setup Request to; may be repeated")
	f.StringArrayVar(&o.Allow, "allow", nil, "prefix from which control plane functions may set up an association; may be repeated (default: any)")
	f.StringArrayVar(&o.Pools, "pool", nil, "prefix to allocate device addresses from: IPv4, or IPv6 of at most 64 bits; may be repeated")
	f.StringArrayVar(&o.Networks, "network-instance", nil, "network instance that rules may name; may be repeated (default: any)")
	f.Uint64Var(&o.GBR, "gbr-capacity", 0, "maximum sum of the guaranteed bit rates of all sessions, in kbit/s and in each direction; 0: unlimited")
	f.DurationVar(&o.T1, "t1", 3*time.Second, "time after which an unanswered request is retransmitted")
	f.IntVar(&o.N1, "n1", 3, "maximum number of times that a request is sent")
	f.DurationVar(&o.Heartbeat, "heartbeat", 10*time.Second, "interval between Heartbeat Requests")
	f.StringVar(&o.Socket, "socket", "/run/polycube/polycubed.sock", "socket of polycubed")
	f.StringVar(&o.BPFFS, "bpffs", "/sys/fs/bpf/polycube", "directory of polycubed in the BPF file system")
	f.StringVar(&o.StateDir, "state-dir", "/var/lib/polycube-upf", "directory to store sessions in")
	f.StringVar(&o.Control, "control", "/run/polycube-upf/control.sock", "Unix socket that serves polycube-upf status and leave")
	f.StringVar(&o.Metrics, "metrics", "", "TCP address that serves Prometheus metrics, such as 127.0.0.1:9103 (default: none)")
	f.StringVar(&o.Level, "loglevel", "info", "log level: debug, info, warn or error")
	f.StringVar(file, "config", "", "YAML file with these options; the command line overrides it")
	f.BoolVar(&o.CheckConfig, "check-config", false, "check the options and exit")
	f.BoolVar(&o.JSON, "json", false, "print the status as JSON")
	f.BoolVarP(version, "version", "v", false, "print the version")
	f.BoolVarP(help, "help", "h", false, "print this help")
	return f
}

// Commands for a running program.
const (
	commandStatus = "status"
	commandLeave  = "leave"
)

// ParseOptions parses a command line without the program's name. command is one for a running program; "": start the program.
func ParseOptions(args []string, out io.Writer) (o Options, command string, err error) {
	var file string
	var version, help bool
	f := flagSet(&o, &file, &version, &help)
	if err := f.Parse(args); err != nil {
		return o, "", usageError{err}
	}
	if help {
		fmt.Fprint(out, usage, f.FlagUsages())
		return o, "", errShown
	}
	if version {
		fmt.Fprintf(out, "polycube-upf %s\n", Version)
		return o, "", errShown
	}
	if file != "" {
		if err := sidecar.ReadFile(file, f, unfit...); err != nil {
			return o, "", usageError{err}
		}
	}
	switch {
	case f.NArg() == 1 && f.Arg(0) == commandStatus:
		return o, commandStatus, nil
	case o.JSON:
		return o, "", usageError{errors.New("--json is accepted only by polycube-upf status")}
	case f.NArg() == 1 && f.Arg(0) == commandLeave:
		return o, commandLeave, nil
	case f.NArg() > 0:
		return o, "", usageError{fmt.Errorf("unexpected word %q", f.Arg(f.NArg()-1))}
	}
	if err := o.finish(); err != nil {
		return o, "", usageError{err}
	}
	return o, "", nil
}

// unfit are options that make no sense in a file.
var unfit = []string{"config", "check-config", "json", "version", "help"}

// finish checks the options and parses their values.
func (o *Options) finish() (err error) {
	switch {
	case o.Cube == "":
		return errors.New("--cube is missing: name a cube of service upf")
	case o.Address == "":
		return errors.New("--address is missing: give the local address of N4")
	case o.T1 <= 0 || o.N1 < 1 || o.Heartbeat <= 0:
		return errors.New("--t1, --n1 and --heartbeat must be positive")
	}
	if err := o.Severity.UnmarshalText([]byte(o.Level)); err != nil {
		return fmt.Errorf("--loglevel: %w", err)
	}
	if o.Listen, err = addrPort(o.Address); err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	o.NodeID = cmp.Or(o.NodeID, o.Listen.Addr().String())
	if o.Prefixes, err = prefixes("--pool", o.Pools); err != nil {
		return err
	}
	for _, p := range o.Prefixes {
		if p.Addr().Is6() && p.Bits() > 64 {
			return fmt.Errorf("--pool %s: a device gets a /64 IPv6 prefix: use a prefix of at most 64 bits", p)
		}
	}
	if o.From, err = prefixes("--allow", o.Allow); err != nil {
		return err
	}
	o.Peers = nil
	for _, text := range o.SMFs {
		peer, err := addrPort(text)
		if err != nil {
			return fmt.Errorf("--smf: %w", err)
		}
		o.Peers = append(o.Peers, peer)
	}
	if !filepath.IsAbs(o.StateDir) {
		return fmt.Errorf("--state-dir %s: must be an absolute path", o.StateDir)
	}
	return nil
}

// prefixes parses the prefixes of an option.
func prefixes(option string, texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", option, err)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// addrPort parses an address, with the port of PFCP if it has none.
func addrPort(text string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, port), nil
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return a, fmt.Errorf("%q: neither an address nor an address with a port", text)
	}
	return a, nil
}
