// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/cubes/all" // whose programs are looked at
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/internal/netdev"
)

// lab is a machine that has everything, for tests to take things away from.
type lab struct {
	Machine
	texts map[string]string
	files map[string]bool
	magic map[string]int64
}

const vulnerabilities = "/sys/devices/system/cpu/vulnerabilities/"

func newLab() *lab {
	l := &lab{
		texts: map[string]string{
			"/proc/sys/net/core/bpf_jit_harden": "0", "/proc/sys/kernel/bpf_stats_enabled": "0",
			"/sys/kernel/rcu_normal": "0", "/sys/kernel/rcu_expedited": "0", "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   2097152 kB",
			"/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc", "/proc/self/maps": "7f00-7f01 r-xp 0 08:01 1   /usr/lib/libyang.so.2.29.2",
			"/proc/sys/net/ipv4/conf/all/rp_filter": "2", "/proc/sys/net/ipv4/ip_forward": "1", vulnerabilities + "meltdown": "Not affected",
		},
		files: map[string]bool{"/dev/net/tun": true},
		magic: map[string]int64{bpffsRoot: unix.BPF_FS_MAGIC, "/sys/fs/cgroup": unix.CGROUP2_SUPER_MAGIC},
	}
	l.Machine = Machine{
		Capabilities: func() (uint64, error) { return 1<<41 - 1, nil },
		Release:      func() (string, error) { return "6.12.3-amd64", nil },
		Text: func(path string) (string, error) {
			if text, ok := l.texts[path]; ok {
				return text, nil
			}
			return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		Glob: func(pattern string) (names []string) {
			for name := range l.texts {
				if dir, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, dir) {
					names = append(names, name)
				}
			}
			if l.files[pattern] {
				names = append(names, pattern)
			}
			return names
		},
		FileSystem: func(path string) (int64, error) {
			if magic, ok := l.magic[path]; ok {
				return magic, nil
			}
			return 0, fs.ErrNotExist
		},
		KernelEnum:     func(string, string) (bool, error) { return true, nil },
		ProgramType:    func(ebpf.ProgramType) error { return nil },
		MapType:        func(ebpf.MapType) error { return nil },
		Helper:         func(ebpf.ProgramType, asm.BuiltinFunc) error { return nil },
		KernelFunction: func(string) (bool, error) { return true, nil },
		Features:       func() (kernel.Features, error) { return kernel.All, nil },
		Services: func() ([]datapath.Trial, error) {
			both := map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {2}}
			return []datapath.Trial{{Service: "switch", Objects: both}, {Service: "guard", Objects: both, Transparent: true}}, nil
		},
		Try: func(_ context.Context, t datapath.Trial) (datapath.TrialReport, error) {
			return datapath.TrialReport{Loads: []datapath.TrialLoad{{Verified: 1200}, {Verified: 3400}}}, nil
		},
		Compiled:  func() (bool, error) { return true, nil },
		Objects:   objects,
		FileLimit: func() (uint64, error) { return 1 << 20, nil },
		Program:   func(name string) (string, error) { return "/usr/bin/" + name, nil },
		CPUs:      func() int { return 8 },
		Netdev: func(name string) (netdev.Facts, error) {
			return netdev.Facts{Info: netdev.Info{Name: name, Kind: "physical", MTU: 1500, Up: true}, Driver: "ice", XDPKnown: true,
				Native: true, Redirects: true, Fragments: true, GRO: true}, nil
		},
	}
	return l
}

// device makes the lab's netdevs as they are after change.
func (l *lab) device(change func(*netdev.Facts)) {
	good := l.Netdev
	l.Netdev = func(name string) (netdev.Facts, error) {
		f, err := good(name)
		change(&f)
		return f, err
	}
}

// without takes a feature of the kernel away.
func without(take func(*kernel.Features)) func(*lab) {
	return func(l *lab) {
		f := kernel.All
		take(&f)
		l.Features = func() (kernel.Features, error) { return f, nil }
	}
}

// TestFeaturesThatNobodyMayAsk: a process without privileges does not learn what the kernel lacks.
func TestFeaturesThatNobodyMayAsk(t *testing.T) {
	l := newLab()
	l.Features = func() (f kernel.Features, _ error) { return f, fmt.Errorf("probing: %w", unix.EPERM) }
	n := 0
	for _, f := range Run(context.Background(), l.Machine, Options{}) {
		if f.Grade != OK {
			n++
			if f.Grade != Unknown || f.Remedy != "run it as root" {
				t.Errorf("found %+v", f)
			}
		}
	}
	if n != 6 {
		t.Errorf("%d features are unknown", n)
	}
}

// refuse has the kernel refuse a service at a hook.
func (l *lab) refuse(h cube.Hook, service string, err error) {
	takes := l.Try
	l.Try = func(ctx context.Context, t datapath.Trial) (datapath.TrialReport, error) {
		if t.Service == service && t.Hooks[0] == h {
			return datapath.TrialReport{}, err
		}
		return takes(ctx, t)
	}
}

// TestEachCheck: one thing is taken away, and exactly that is found, with its grade and a remedy that names what to do.
func TestEachCheck(t *testing.T) {
	tests := []struct {
		name   string
		take   func(*lab)
		what   string
		grade  Grade
		found  string
		remedy string
	}{
		{"not root", func(l *lab) { l.Capabilities = func() (uint64, error) { return 0, nil } }, "privileges", Missing, "CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON", "root"},
		{"CAP_SYS_ADMIN holds those about BPF", func(l *lab) {
			l.Capabilities = func() (uint64, error) { return 1 << unix.CAP_SYS_ADMIN, nil }
		}, "privileges", Missing, "without CAP_NET_ADMIN", "root"},
		{"no namespaces of cubes", func(l *lab) {
			l.Capabilities = func() (uint64, error) {
				return 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON, nil
			}
		}, "privileges", Note, "no cube can have a namespace", ""},
		{"an old kernel", func(l *lab) { l.Release = func() (string, error) { return "5.15.0-91-generic", nil } }, "kernel", Note, "older than 6.1", ""},
		{"no BTF", func(l *lab) { l.KernelEnum = func(string, string) (bool, error) { return false, fs.ErrNotExist } }, "BTF", Missing, "cannot read", "CONFIG_DEBUG_INFO_BTF"},
		{"no XDP", func(l *lab) {
			l.ProgramType = func(p ebpf.ProgramType) error { return lacks(p == ebpf.XDP) }
		}, "program types", Missing, "no XDP", "6.1"},
		{"no ring buffer", func(l *lab) {
			l.MapType = func(m ebpf.MapType) error { return lacks(m == ebpf.RingBuf) }
		}, "map types", Missing, "no RingBuf", "6.1"},
		{"no bpf_loop at TC", func(l *lab) {
			l.Helper = func(p ebpf.ProgramType, f asm.BuiltinFunc) error { return lacks(p == ebpf.SchedCLS && f == asm.FnLoop) }
		}, "TC helpers", Missing, "no bpf_loop", "6.1"},
		{"no fragments", func(l *lab) {
			l.Helper = func(_ ebpf.ProgramType, f asm.BuiltinFunc) error { return lacks(f == asm.FnXdpLoadBytes) }
		}, "XDP helpers", Missing, "no bpf_xdp_load_bytes", "6.1"},
		{"a helper that cannot be asked for", func(l *lab) {
			l.Helper = func(p ebpf.ProgramType, _ asm.BuiltinFunc) error {
				if p == ebpf.XDP {
					return unix.EPERM
				}
				return nil
			}
		}, "XDP helpers", Unknown, "no permission to query", "root"},
		{"a service that is refused", func(l *lab) {
			l.refuse(cube.XDP, "guard", &datapath.TrialError{At: "a cube on a port", Constants: "strict=true", Err: errors.New("R2 invalid mem access 'mem_or_null'\n\tR1=ctx()")})
		}, "XDP guard", Missing, "the kernel refuses it (as a cube on a port, with strict=true): R2 invalid mem access 'mem_or_null'", "Linux 6.1 or newer"},
		{"a service that is refused inline", func(l *lab) {
			l.refuse(cube.TC, "guard", &datapath.TrialError{At: "a cube on a port", Mode: link.Inline, Err: unix.E2BIG})
		}, "TC guard", Slower, "refuses it inlined", "stay functions"},
		{"services that nobody may load", func(l *lab) {
			l.refuse(cube.TC, "guard", fmt.Errorf("%w: %w", datapath.ErrUntried, unix.EPERM))
		}, "TC services", Unknown, "no permission to query", "root"},
		{"values that were not tried", func(l *lab) {
			l.Try = func(_ context.Context, t datapath.Trial) (r datapath.TrialReport, _ error) {
				if t.Service == "guard" && t.Hooks[0] == cube.TC {
					r.Untried = 7
				}
				return r, nil
			}
		}, "TC guard", Note, "7 pairs", ""},
		{"models that cannot be read", func(l *lab) {
			l.Services = func() ([]datapath.Trial, error) { return nil, errors.New("no libyang") }
		}, "services", Unknown, "no libyang", ""},
		{"no tcx", func(l *lab) {
			l.KernelEnum = func(_, value string) (bool, error) { return value != "BPF_TCX_INGRESS", nil }
		}, "tcx", Slower, "clsact", "6.6"},
		{"arguments that may be NULL", without(func(f *kernel.Features) { f.NonNullArgs = false }), "NULL tests", Slower, "at each call", "6.8"},
		{"loops with a jump", without(func(f *kernel.Features) { f.LoopsByFallThrough = false }), "loops", Note, "an extra jump", "6.7"},
		{"constants that are confused", without(func(f *kernel.Features) { f.StackByAnyRegister = false }), "constants", Note, "hides them", "6.8"},
		{"no inlined lookups", func(l *lab) {
			l.KernelFunction = func(name string) (bool, error) { return name != "bpf_jit_supports_percpu_insn", nil }
		}, "counters", Slower, "needs a call", "6.10"},
		{"no look at the kernel's packet", without(func(f *kernel.Features) { f.SkbOfContext = false }), "checksums", Slower, "call a helper", "6.2"},
		{"no lookup of connections", without(func(f *kernel.Features) { f.ConnectionLookup = false }), "connections", Note, "efw leaves all packets", "NF_CONNTRACK"},
		{"no redirects of jumbo frames", without(func(f *kernel.Features) { f.RedirectFrags = false }), "XDP jumbo frames", Note, "cannot be redirected", "6.3"},
		{"drivers that nobody knows", func(l *lab) {
			l.KernelEnum = func(_, value string) (bool, error) { return value != "NETDEV_XDP_ACT_BASIC", nil }
		}, "XDP drivers", Note, "does not report", "6.3"},
		{"no BPF file system", func(l *lab) { l.magic[bpffsRoot] = 0x62656572 }, "BPF file system", Note, "the daemon mounts one", ""},
		{"no place for one", func(l *lab) { delete(l.magic, bpffsRoot) }, "BPF file system", Missing, "there is no /sys/fs/bpf", "CONFIG_BPF_SYSCALL"},
		{"no TAP devices", func(l *lab) { delete(l.files, "/dev/net/tun") }, "TAP devices", Missing, "/dev/net/tun", "modprobe tun"},
		{"no JIT", func(l *lab) { l.Compiled = func() (bool, error) { return false, nil } }, "JIT", Slower, "interpreted", "bpf_jit_enable=1"},
		{"a namespace that does not tell", func(l *lab) { delete(l.texts, "/proc/sys/net/core/bpf_jit_harden") }, "JIT hardening", Note, "network namespace", ""},
		{"hardening for all", func(l *lab) { l.texts["/proc/sys/net/core/bpf_jit_harden"] = "2" }, "JIT hardening", Slower, "for all programs", "bpf_jit_harden=1"},
		{"statistics", func(l *lab) { l.texts["/proc/sys/kernel/bpf_stats_enabled"] = "1" }, "BPF statistics", Slower, "timed", "bpf_stats_enabled=0"},
		{"slow grace periods", func(l *lab) { l.texts["/sys/kernel/rcu_normal"] = "1" }, "grace periods", Slower, "rcu_normal", "echo 0"},
		{"no short grace periods", func(l *lab) { delete(l.texts, "/sys/kernel/rcu_expedited") }, "grace periods", Slower, "cannot be shortened", "/sys"},
		{"retpolines", func(l *lab) {
			l.texts[vulnerabilities+"spectre_v2"] = "Mitigation: Retpolines; STIBP: disabled"
		}, "mitigations", Slower, "for spectre_v2", "mitigations=off"},
		{"a slow clock", func(l *lab) {
			l.texts["/sys/devices/system/clocksource/clocksource0/current_clocksource"] = "hpet"
		}, "clock", Slower, "hpet", "tsc"},
		{"one processor", func(l *lab) { l.CPUs = func() int { return 1 } }, "processors", Note, "1:", ""},
		{"little memory", func(l *lab) { l.texts["/proc/meminfo"] = "MemAvailable: 204800 kB" }, "memory", Note, "200 MB", ""},
		{"few files", func(l *lab) { l.FileLimit = func() (uint64, error) { return 4096, nil } }, "open files", Note, "limit 4096", "LimitNOFILE"},
		{"no control groups", func(l *lab) { delete(l.magic, "/sys/fs/cgroup") }, "control groups", Note, "one process at a time", "mount -t cgroup2"},
		{"strict reverse path", func(l *lab) { l.texts["/proc/sys/net/ipv4/conf/all/rp_filter"] = "1" }, "stack", Note, "rp_filter is strict", ""},
		{"no forwarding", func(l *lab) { l.texts["/proc/sys/net/ipv4/ip_forward"] = "0" }, "stack", Note, "ip_forward is off", ""},
		{"no tcpdump", func(l *lab) { l.Program = func(string) (string, error) { return "", errors.New("not found") } }, "tcpdump", Note, "no filters", "apt install tcpdump"},

		{"a netdev that is not there", func(l *lab) {
			l.Netdev = func(string) (netdev.Facts, error) { return netdev.Facts{}, netdev.ErrNotFound }
		}, "eth0", Unfit, "no such network device", "ip link"},
		{"loopback", func(l *lab) { l.device(func(f *netdev.Facts) { f.Kind = "loopback" }) }, "eth0", Unfit, "loopback", "veth pair"},
		{"no Ethernet", func(l *lab) { l.device(func(f *netdev.Facts) { f.Kind, f.NoEthernet = "wireguard", true }) }, "eth0", Unfit, "wireguard", "TAP"},
		{"a netdev that is down", func(l *lab) { l.device(func(f *netdev.Facts) { f.Up = false }) }, "eth0", Note, "physical (ice), down", "ip link set eth0 up"},
		{"own address only", func(l *lab) { l.device(func(f *netdev.Facts) { f.OwnOnly = true }) }, "eth0", Note, "not for a bridge", ""},
		{"no native XDP", func(l *lab) { l.device(func(f *netdev.Facts) { f.Native = false }) }, "eth0 XDP", Slower, "XDP_DRV is refused", "type TC"},
		{"no redirects", func(l *lab) { l.device(func(f *netdev.Facts) { f.Redirects = false }) }, "eth0 XDP", Slower, "cannot send", "type TC"},
		{"a kernel that does not tell", func(l *lab) { l.device(func(f *netdev.Facts) { f.XDPKnown = false }) }, "eth0 XDP", Unknown, "does not report", "6.3"},
		{"jumbo frames without fragments", func(l *lab) {
			l.device(func(f *netdev.Facts) { f.MTU, f.Fragments = 9000, false })
		}, "eth0 MTU", Slower, "9000", "3456"},
		{"LRO", func(l *lab) { l.device(func(f *netdev.Facts) { f.LRO = true }) }, "eth0 LRO", Slower, "switches it off", "lro off"},
		{"no GRO", func(l *lab) { l.device(func(f *netdev.Facts) { f.GRO = false }) }, "eth0 GRO", Note, "superframes", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab()
			tt.take(l)
			report := Run(context.Background(), l.Machine, Options{Netdevs: []string{"eth0"}})
			seen := false
			for _, f := range report {
				if f.What != tt.what {
					// Without BTF, other things cannot be looked at either.
					if f.Grade != OK && f.Grade != Unknown {
						t.Errorf("also found: %+v", f)
					}
					continue
				}
				seen = true
				if f.Grade != tt.grade || !strings.Contains(f.Found, tt.found) || !strings.Contains(f.Remedy, tt.remedy) || (tt.remedy == "") != (f.Remedy == "") {
					t.Errorf("found %+v", f)
				}
			}
			if !seen {
				t.Errorf("nothing about %s in %+v", tt.what, report)
			}
			if report.Runs() != (tt.grade != Missing) || report.Good() != (tt.grade != Missing && tt.grade != Unfit) {
				t.Errorf("runs: %v, good: %v", report.Runs(), report.Good())
			}
		})
	}
}

func lacks(yes bool) error {
	if yes {
		return fmt.Errorf("probe: %w", ebpf.ErrNotSupported)
	}
	return nil
}

// TestNothingMissing: a machine that has everything is told so, and every check says something.
func TestNothingMissing(t *testing.T) {
	report := Run(context.Background(), newLab().Machine, Options{Netdevs: []string{"eth0"}})
	for _, f := range report {
		if f.Grade != OK || f.Found == "" || f.Remedy != "" {
			t.Errorf("found %+v", f)
		}
	}
	var out bytes.Buffer
	if err := report.Table(&out); err != nil || !strings.HasSuffix(out.String(), "\n\npolycubed can run here\n") || strings.Count(out.String(), "\n") != len(report)+2 {
		t.Errorf("%v:\n%s", err, &out)
	}
	if len(report) < 25 {
		t.Errorf("only %d things are looked at", len(report))
	}
}

// TestServicesInALine: the line tells how much the verifier looks at, and nothing is loaded where no program can be.
func TestServicesInALine(t *testing.T) {
	l := newLab()
	var tried []string
	takes := l.Try
	l.Try = func(ctx context.Context, t datapath.Trial) (datapath.TrialReport, error) {
		tried = append(tried, fmt.Sprintf("%v %s %t", t.Hooks[0], t.Service, t.Brief))
		return takes(ctx, t)
	}
	find := func(what string, o Options) string {
		for _, f := range Run(context.Background(), l.Machine, o) {
			if f.What == what {
				return f.Found
			}
		}
		return ""
	}
	if got, want := find("XDP services", Options{}), "2 load; instructions verified: switch 3400, guard 3400"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	find("", Options{All: true})
	want := "tc switch true, tc guard true, xdp switch true, xdp guard true, tc switch false, tc guard false, xdp switch false, xdp guard false"
	if got := strings.Join(tried, ", "); got != want {
		t.Errorf("tried are %s, want %s", got, want)
	}
	l.Helper = func(_ ebpf.ProgramType, f asm.BuiltinFunc) error { return lacks(f == asm.FnLoop) }
	tried = nil
	if got := find("TC services", Options{}); got != "" || len(tried) > 0 {
		t.Errorf("without bpf_loop %q is found, and tried are %v", got, tried)
	}
}

// TestTable: the remedy stands below what it is for, and the last line says what it comes to.
func TestTable(t *testing.T) {
	report := Report{{"JIT", Slower, "off", "switch it on"}, {"kernel", OK, "Linux 9", ""}}
	want := "slower  JIT     off\n                → switch it on\nok      kernel  Linux 9\n\n"
	for _, tt := range []struct {
		more Report
		last string
	}{
		{nil, "polycubed can run here: 1 slower than possible"},
		{Report{{"lo", Unfit, "loopback", ""}}, "polycubed can run here: 1 cannot be the peer of a port, 1 slower than possible"},
		{Report{{"BTF", Missing, "none", ""}, {"tcx", Unknown, "?", ""}}, "polycubed cannot run here: 1 missing, 1 could not be checked, 1 slower than possible"},
		{Report{{"tcx", Unknown, "?", ""}}, "polycubed might run here: 1 could not be checked, 1 slower than possible"},
	} {
		if got := append(tt.more, report...).summary(ofMachine); got != tt.last {
			t.Errorf("summary %q, want %q", got, tt.last)
		}
	}
	var out bytes.Buffer
	if err := report.Table(&out); err != nil || !strings.HasPrefix(out.String(), want) {
		t.Errorf("%v:\n%s", err, &out)
	}
	out.Reset()
	var read struct {
		Runs     bool
		Findings Report
	}
	if err := report.JSON(&out); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &read); err != nil || !read.Runs || len(read.Findings) != 2 || read.Findings[0] != report[0] {
		t.Errorf("%v: %s", err, &out)
	}
}

// TestHelpersAreThoseOfPrograms: what is asked of the kernel is read from the programs that ship, not from a list.
func TestHelpersAreThoseOfPrograms(t *testing.T) {
	for h, want := range map[cube.Hook]asm.BuiltinFunc{cube.TC: asm.FnCloneRedirect, cube.XDP: asm.FnXdpAdjustMeta} {
		if len(objects(h)) < 3+len(cube.Services())/2 {
			t.Errorf("%v: only %d objects", h, len(objects(h)))
		}
		u, err := usesOf(objects(h))
		if err != nil || !u.helpers[want] || !u.maps[ebpf.RingBuf] {
			t.Errorf("%v: %v, helpers %v, maps %v", h, err, u.helpers, u.maps)
		}
	}
	if got := helperName(asm.FnSkbLoadBytes); got != "bpf_skb_load_bytes" {
		t.Errorf("the name of the helper is %s", got)
	}
}

// TestThisMachine: a real one, that the tests run on, can run a daemon, and looking at it changes nothing.
func TestThisMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the kernel is asked what it can do")
	}
	report := Run(context.Background(), This(), Options{Netdevs: []string{"lo", "none0"}})
	for _, f := range report {
		if f.Grade == Unknown || f.Grade == Missing {
			t.Errorf("found %+v", f)
		}
		if (f.What == "lo" || f.What == "none0") && f.Grade != Unfit {
			t.Errorf("found %+v", f)
		}
	}
}
