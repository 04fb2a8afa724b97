// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// Options come from the command line, then from the configuration file, then from
// defaults that depend on the instance, so that several daemons run side by side.

// Version of the daemon, set with -ldflags -X.
var Version = "dev"

// Exit policies: what stays in the kernel when the daemon stops.
const (
	// ExitKeep leaves programs, maps and attachments: traffic continues.
	ExitKeep = "keep"
	// ExitClean removes everything from the kernel; the configuration stays on disk.
	ExitClean = "clean"
)

// Defaults of the options.
const (
	defaultAddr       = "localhost"
	defaultPort       = 9000
	defaultConfigFile = "/etc/polycube/polycubed.conf"
	bpffsRoot         = "/sys/fs/bpf"
)

// Options of one daemon.
type Options struct {
	// Instance is "" for the machine's main daemon.
	Instance string
	// Socket, StateDir, RunDir and BPFFS are absolute paths.
	Socket, StateDir, RunDir, BPFFS string
	// TCP reports whether a TCP listener was requested.
	TCP              bool
	Addr             string
	Port             uint16
	InsecureLoopback bool
	LogLevel         slog.Level
	// LogFile is "" for standard error.
	LogFile string
	// LogFormat is text or json.
	LogFormat string
	PidFile   string
	OnExit    string
	// Mounts is the file of the mount namespace in which namespaces of cubes get their names, "" for the daemon's own.
	Mounts string
	// SegmentCubes limits the cubes of one linked program, for tests; 0 is the kernel's limit.
	SegmentCubes int
	// Background runs the daemon in a separate process; the first process waits until it is ready.
	Background bool
	// CheckConfig checks the options instead of running a daemon.
	CheckConfig bool
	// ConfigFile is where to write a file with the defaults if there is none; "" for an instance, or if a file was
	// given.
	ConfigFile string
	// Cleanup removes everything that a stopped daemon left, instead of running a daemon.
	Cleanup bool
	// Check checks the machine, and its Netdevs, instead of running a daemon; JSON prints the result as JSON, All
	// loads programs with all values of their constants.
	Check, JSON, All bool
	Netdevs          []string
	// CheckService checks the files of a service, model and programs, instead of running a daemon.
	CheckService []string
	accessOptions
	serviceOptions
	// Warnings are what the user should know about the options given.
	Warnings []string
}

// errShown is returned after help or version were printed: there is nothing to run.
var errShown = errors.New("shown")

// usageError is a mistake in the command line or the configuration file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// rawOptions are the flags as given.
type rawOptions struct {
	Options
	level, config string
	port          uint16
	version, help bool
}

// deprecated are options of the first daemon that are accepted but have no effect.
var deprecated = map[string]string{
	"cubes-dump-enable": "the configuration is always saved",
	"cubes-dump":        "the configuration is always saved",
	"cubes-dump-file":   "the configuration is saved in the state directory",
}

// refused are options of the first daemon that must not be ignored silently.
var refused = map[string]string{
	"cubes-dump-clean-init": "to start empty, move the state directory away",
	"cubes-init":            "to start empty, move the state directory away",
	"cubes-nodump":          "the configuration is always saved",
}

// flagSet declares every option; r receives their values.
func flagSet(name string, r *rawOptions) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.StringVar(&r.Instance, "instance", "", "name of this daemon, to run several side by side")
	f.StringVar(&r.Socket, "socket", "", "Unix socket of the API (default RUN-DIR/polycubed.sock)")
	f.StringVarP(&r.Addr, "addr", "a", defaultAddr, "TCP address of the API: loopback, or any with TLS (off unless --addr, --port or --cert is given)")
	f.Uint16VarP(&r.port, "port", "p", defaultPort, "TCP port of the API (off unless --addr, --port or --cert is given)")
	f.BoolVar(&r.InsecureLoopback, "insecure-loopback", false, "let every local user change the configuration over TCP, without the token")
	r.declare(f)
	f.BoolVarP(&r.Background, "daemon", "d", false, "run in the background; returns when the daemon is ready, or prints why it is not")
	r.declareServices(f)
	f.StringVarP(&r.level, "loglevel", "l", "info", "trace, debug, info, warn, err, critical or off")
	f.StringVar(&r.LogFile, "logfile", "", "log file, rotated at 5 MB, reopened on SIGHUP (default standard error; in the background /var/log/polycube[/INSTANCE]/polycubed.log)")
	f.StringVar(&r.LogFormat, "logformat", logText, "text: lines in the format of the first Polycube; json: one object per line")
	f.StringVar(&r.PidFile, "pidfile", "", "file for the process id (default RUN-DIR/polycubed.pid)")
	f.StringVar(&r.config, "configfile", defaultConfigFile, "file with lines \"option: value\"; the command line overrides it")
	f.StringVar(&r.StateDir, "state-dir", "", "directory for the configuration (default /var/lib/polycube[/INSTANCE])")
	f.StringVar(&r.RunDir, "run-dir", "", "directory for socket, token and lock (default /run/polycube[/INSTANCE])")
	f.StringVar(&r.BPFFS, "bpffs", "", "directory in a BPF file system for pinned programs and maps (default /sys/fs/bpf/polycube[-INSTANCE])")
	f.StringVar(&r.OnExit, "on-exit", ExitKeep, "keep: traffic continues without the daemon; clean: everything is removed from the kernel")
	f.StringVar(&r.Mounts, "mount-namespace", "", "mount namespace in which namespaces of cubes get their names, if the daemon runs in its own: /proc/1/ns/mnt")
	f.IntVar(&r.SegmentCubes, "segment-cubes", 0, "maximum number of cubes in one program (for tests)")
	f.Lookup("segment-cubes").Hidden = true
	f.BoolVar(&r.CheckConfig, "check-config", false, "check the command line and the configuration file, and start nothing")
	f.BoolVar(&r.JSON, "json", false, "print the result of polycubed check as JSON")
	f.BoolVar(&r.All, "all", false, "polycubed check loads programs with every pair of constant values, for up to a minute")
	f.BoolVarP(&r.version, "version", "v", false, "print the version")
	f.BoolVarP(&r.help, "help", "h", false, "print this help")
	for _, table := range []map[string]string{deprecated, refused} {
		for name := range table {
			f.String(name, "", "")
			f.Lookup(name).NoOptDefVal = "true"
			f.Lookup(name).Hidden = true
		}
	}
	f.Lookup("cubes-dump-file").NoOptDefVal = "" // takes a value, also after a blank
	return f
}

// ParseOptions reads the command line (without the program's name) and the configuration
// file. Help and version are printed to out.
func ParseOptions(args []string, out io.Writer) (Options, error) {
	var r rawOptions
	f := flagSet("polycubed", &r)
	if err := f.Parse(longJSON(args)); err != nil {
		return Options{}, usageError{explainFlag(f, err)}
	}
	switch {
	case r.help:
		fmt.Fprintf(out, "%s\n%s", usage, f.FlagUsages())
		return Options{}, errShown
	case r.version:
		fmt.Fprintf(out, "polycubed %s\n", Version)
		return Options{}, errShown
	case f.NArg() > 0 && f.Arg(0) == "check":
		r.Check, r.Netdevs = true, f.Args()[1:]
		return r.Options, nil
	case f.NArg() > 0 && f.Arg(0) == "check-service" && !r.JSON:
		if r.CheckService = f.Args()[1:]; len(r.CheckService) < 2 {
			return Options{}, usageError{errors.New("check-service needs the files NAME.yang and NAME.tc.o, NAME.xdp.o or both")}
		}
		return r.Options, nil
	case r.JSON:
		return Options{}, usageError{errors.New("--json is accepted only by polycubed check")}
	case r.All:
		return Options{}, usageError{errors.New("--all is accepted only by polycubed check and check-service")}
	case f.NArg() == 1 && f.Arg(0) == "cleanup":
		r.Cleanup = true
	case f.NArg() > 0:
		return Options{}, usageError{fmt.Errorf("unexpected word %q", f.Arg(0))}
	}
	if err := r.readConfig(f); err != nil {
		return Options{}, usageError{err}
	}
	if err := r.finish(f); err != nil {
		return Options{}, usageError{err}
	}
	return r.Options, nil
}

// readConfig applies the configuration file below the command line. A file that was not given explicitly need not
// exist.
func (r *rawOptions) readConfig(f *pflag.FlagSet) error {
	named := f.Changed("configfile")
	if !named && r.Instance == "" {
		r.ConfigFile = r.config
	}
	if !named && r.Instance != "" {
		// The main daemon's file must not give its socket and port to another instance.
		return nil
	}
	text, err := os.ReadFile(r.config)
	if errors.Is(err, os.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	settings, err := parseConfig(string(text))
	if err != nil {
		return fmt.Errorf("configuration file %s: %w", r.config, err)
	}
	for _, s := range settings {
		flag := f.Lookup(s.name)
		if flag == nil || notInFile[s.name] {
			return fmt.Errorf("configuration file %s line %d: unknown option %q%s", r.config, s.line, s.name, didYouMean(f, "", s.name))
		}
		if flag.Changed {
			if flag.Value.String() != s.value {
				r.Warnings = append(r.Warnings, fmt.Sprintf("--%s on the command line overrides %s line %d", s.name, r.config, s.line))
			}
			continue
		}
		value := s.value
		if value == "" && flag.NoOptDefVal != "" {
			value = flag.NoOptDefVal
		}
		if err := flag.Value.Set(value); err != nil {
			return fmt.Errorf("configuration file %s line %d: %s: %w", r.config, s.line, s.name, err)
		}
	}
	for _, s := range settings {
		f.Lookup(s.name).Changed = true
	}
	return nil
}

var instanceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// finish checks the options and fills in those that depend on others.
func (r *rawOptions) finish(f *pflag.FlagSet) error {
	if err := r.checkOld(f); err != nil {
		return err
	}
	if r.Instance != "" && !instanceName.MatchString(r.Instance) {
		return fmt.Errorf("instance %q: a name has 1 to 32 characters from A-Z a-z 0-9 _ -", r.Instance)
	}
	var err error
	if r.LogLevel, err = parseLevel(r.level); err != nil {
		return err
	}
	if r.LogFormat != logText && r.LogFormat != logJSON {
		return fmt.Errorf("logformat %.40q: must be text or json", r.LogFormat)
	}
	if r.OnExit != ExitKeep && r.OnExit != ExitClean {
		return fmt.Errorf("on-exit %q: must be keep or clean", r.OnExit)
	}
	r.Port = r.port
	r.TCP = f.Changed("addr") || f.Changed("port")
	if err := r.finishAccess(f); err != nil {
		return err
	}
	if err := r.finishServices(); err != nil {
		return err
	}
	r.defaultPaths()
	if filepath.Clean(r.BPFFS) == bpffsRoot {
		return fmt.Errorf("bpffs %s is shared with other programs: give a directory in it", r.BPFFS)
	}
	for _, p := range []*string{&r.Socket, &r.StateDir, &r.RunDir, &r.BPFFS, &r.PidFile, &r.LogFile, &r.Mounts} {
		if *p == "" {
			continue
		}
		if *p, err = filepath.Abs(*p); err != nil {
			return fmt.Errorf("path %q: %w", *p, err)
		}
	}
	return r.accessPaths()
}

// defaultPaths derives the paths that were not given from the instance.
func (r *rawOptions) defaultPaths() {
	pick := func(p *string, otherwise string) {
		if *p == "" {
			*p = otherwise
		}
	}
	pins := "polycube"
	if r.Instance != "" {
		pins += "-" + r.Instance
	}
	pick(&r.StateDir, filepath.Join("/var/lib/polycube", r.Instance))
	pick(&r.RunDir, filepath.Join("/run/polycube", r.Instance))
	pick(&r.BPFFS, filepath.Join(bpffsRoot, pins))
	if r.Background {
		pick(&r.LogFile, filepath.Join("/var/log/polycube", r.Instance, "polycubed.log"))
	}
	pick(&r.Socket, filepath.Join(r.RunDir, "polycubed.sock"))
	pick(&r.PidFile, filepath.Join(r.RunDir, "polycubed.pid"))
}

// checkOld warns of the first daemon's options that have no effect and refuses those
// that would have one.
func (r *rawOptions) checkOld(f *pflag.FlagSet) error {
	var err error
	f.VisitAll(func(flag *pflag.Flag) {
		if !flag.Changed || strings.EqualFold(flag.Value.String(), "false") {
			return
		}
		if why, ok := deprecated[flag.Name]; ok {
			r.Warnings = append(r.Warnings, fmt.Sprintf("option %s is deprecated and has no effect: %s", flag.Name, why))
		}
		if why, ok := refused[flag.Name]; ok && err == nil {
			err = fmt.Errorf("option %s is not available: %s", flag.Name, why)
		}
	})
	return err
}
