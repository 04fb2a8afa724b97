// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestParseOptions: what each option gives, and which mistakes are refused.
func TestParseOptions(t *testing.T) {
	tests := []struct {
		name  string
		args  []string
		check func(Options) bool
		fault string
	}{
		{"defaults of the main daemon", nil, func(o Options) bool {
			return o.Socket == "/run/polycube/polycubed.sock" && o.StateDir == "/var/lib/polycube" && o.RunDir == "/run/polycube" &&
				o.BPFFS == "/sys/fs/bpf/polycube" && o.PidFile == "/run/polycube/polycubed.pid" && !o.TCP && o.OnExit == ExitKeep &&
				o.LogLevel == slog.LevelInfo && o.LogFile == ""
		}, ""},
		{"an instance has everything of its own", []string{"--instance", "blue"}, func(o Options) bool {
			return o.Socket == "/run/polycube/blue/polycubed.sock" && o.StateDir == "/var/lib/polycube/blue" && o.RunDir == "/run/polycube/blue" &&
				o.BPFFS == "/sys/fs/bpf/polycube-blue" && o.PidFile == "/run/polycube/blue/polycubed.pid"
		}, ""},
		{"the socket follows the run directory", []string{"--run-dir=/tmp/r"}, func(o Options) bool { return o.Socket == "/tmp/r/polycubed.sock" }, ""},
		{"a port opens TCP", []string{"-p", "9001"}, func(o Options) bool { return o.TCP && o.Addr == "localhost" && o.Port == 9001 }, ""},
		{"an address opens TCP", []string{"-a", "127.0.0.1"}, func(o Options) bool { return o.TCP && o.Port == 9000 }, ""},
		{"levels", []string{"-l", "TRACE"}, func(o Options) bool { return o.LogLevel == levelTrace }, ""},
		{"off is a level", []string{"--loglevel=off"}, func(o Options) bool { return o.LogLevel == levelOff }, ""},
		{"leave nothing", []string{"--on-exit=clean"}, func(o Options) bool { return o.OnExit == ExitClean }, ""},
		{"an old option without effect is accepted", []string{"--cubes-dump-enable", "--cubes-dump-file", "/x.yaml"}, func(o Options) bool {
			return len(o.Warnings) == 2 && strings.Contains(o.Warnings[0], "deprecated")
		}, ""},
		{"an old switch that is off warns of nothing", []string{"--daemon=false"}, func(o Options) bool { return len(o.Warnings) == 0 }, ""},

		{"an old option that would have an effect", []string{"--cubes-dump-clean-init"}, nil, "move the state directory away"},
		{"an unknown option", []string{"--colour"}, nil, "unknown flag"},
		{"clean up", []string{"cleanup", "--instance", "blue"}, func(o Options) bool { return o.Cleanup && o.Instance == "blue" }, ""},
		{"clean up, at the end", []string{"--instance", "blue", "cleanup"}, func(o Options) bool { return o.Cleanup && o.Instance == "blue" }, ""},
		{"an instance of that name", []string{"--instance", "cleanup"}, func(o Options) bool { return !o.Cleanup }, ""},
		{"a word", []string{"start"}, nil, `unexpected word "start"`},
		{"an unknown level", []string{"-l", "loud"}, nil, "trace, debug, info"},
		{"a port out of range", []string{"-p", "65536"}, nil, "65536"},
		{"another policy", []string{"--on-exit=burn"}, nil, "keep or clean"},
		{"an instance that is a path", []string{"--instance", "../x"}, nil, "a name has"},
		{"an instance that is too long", []string{"--instance", strings.Repeat("x", 33)}, nil, "a name has"},
		{"pins among everybody's", []string{"--bpffs", "/sys/fs/bpf/"}, nil, "shared with other programs"},
		{"a configuration file that is not there", []string{"--configfile", "/none/x"}, nil, "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if !slices.Contains(args, "--configfile") {
				args = append([]string{"--configfile", emptyFile(t)}, args...)
			}
			o, err := ParseOptions(args, &bytes.Buffer{})
			var usage usageError
			switch {
			case tt.fault != "":
				if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("error %v, want a usage error with %q", err, tt.fault)
				}
			case err != nil:
				t.Errorf("refused: %v", err)
			case !tt.check(o):
				t.Errorf("options are %+v", o)
			}
		})
	}
}

func emptyFile(t *testing.T) string {
	t.Helper()
	return writeFile(t, "")
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "polycubed.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConfigFile: the file gives what the command line does not, and its mistakes are
// named by their line.
func TestConfigFile(t *testing.T) {
	tests := []struct {
		name, text string
		args       []string
		check      func(Options) bool
		fault      string
	}{
		{"values, comments, blanks and quotes", "# all\n\nport: 9005   # the port\n loglevel : debug\nlogfile: \"/tmp/a #1.log\"\n", nil, func(o Options) bool {
			return o.Port == 9005 && o.TCP && o.LogLevel == slog.LevelDebug && o.LogFile == "/tmp/a #1.log"
		}, ""},
		{"a value with a colon", "addr: ::1\n", nil, func(o Options) bool { return o.Addr == "::1" }, ""},
		{"a switch without value", "port: 9000\ninsecure-loopback\n", nil, func(o Options) bool { return o.InsecureLoopback }, ""},
		{"a switch that is off", "port: 9000\ninsecure-loopback: false\n", nil, func(o Options) bool { return !o.InsecureLoopback }, ""},
		{"the command line wins, with a word", "loglevel: debug\n", []string{"-l", "warn"}, func(o Options) bool {
			return o.LogLevel == slog.LevelWarn && len(o.Warnings) == 1 && strings.Contains(o.Warnings[0], "--loglevel")
		}, ""},
		{"the same twice needs no word", "loglevel: warn\n", []string{"-l", "warn"}, func(o Options) bool { return len(o.Warnings) == 0 }, ""},
		{"the file of the first daemon", "daemon: false\nport: 9000\naddr: localhost\nloglevel: info\ncubes-dump-file: /etc/polycube/cubes.yaml\n", nil,
			func(o Options) bool { return o.TCP && len(o.Warnings) == 1 }, ""},
		{"an unknown option", "\ncolour: red\n", nil, nil, `line 2: unknown option "colour"`},
		{"a short name", "p: 9000\n", nil, nil, `unknown option "p"`},
		{"an option given twice", "port: 1\nport: 2\n", nil, nil, "line 2: option port was already given in line 1"},
		{"not of the form", "port = 9000\n", nil, nil, "line 1"},
		{"a wrong value", "port: many\n", nil, nil, "line 1: port"},
		{"a file that names another", "configfile: /x\n", nil, nil, `unknown option "configfile"`},
		{"a security option of the first daemon", "cacert: /x.pem\n", nil, nil, "give --cert and --key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := ParseOptions(append([]string{"--configfile", writeFile(t, tt.text)}, tt.args...), &bytes.Buffer{})
			switch {
			case tt.fault != "":
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("error %v, want one with %q", err, tt.fault)
				}
			case err != nil:
				t.Errorf("refused: %v", err)
			case !tt.check(o):
				t.Errorf("options are %+v", o)
			}
		})
	}
}

// TestHelpAndVersion are printed and end the program well.
func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{"-h": "--insecure-loopback", "--help": "polycubed cleanup", "-v": "polycubed " + Version} {
		var out, errs bytes.Buffer
		if status := command(t.Context(), []string{args}, parts{}, &out, &errs, nil); status != 0 || !strings.Contains(out.String(), want) || errs.Len() > 0 {
			t.Errorf("%s: status %d, output %q, errors %q", args, status, out.String(), errs.String())
		}
		if strings.Contains(out.String(), "cubes-dump") {
			t.Error("help shows options of the first daemon")
		}
	}
	var out, errs bytes.Buffer
	if status := command(t.Context(), []string{"--colour"}, parts{}, &out, &errs, nil); status != exitUsage || !strings.Contains(errs.String(), "--help") {
		t.Errorf("a wrong option: status %d, errors %q", status, errs.String())
	}
}
