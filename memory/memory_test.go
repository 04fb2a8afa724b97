// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files, given as "path=content", with \n where there is a ;.
func tree(t *testing.T, files ...string) string {
	root := t.TempDir()
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, ";", "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTheLeastOfMachineAndGroupsIsAvailable(t *testing.T) {
	const machine, unlimited = "proc/meminfo=MemTotal: 4000 kB;MemAvailable: 2000 kB", "9223372036854771712"
	for _, tt := range []struct {
		name  string
		files []string
		want  Room
	}{
		{"nothing is known", nil, Room{math.MaxUint64, "the machine"}},
		{"no groups", []string{machine}, Room{2000 << 10, "the machine"}},
		{"version 1", []string{machine, "proc/self/cgroup=5:cpu:/x;4:memory:/a/b;1:name=systemd:/",
			"sys/fs/cgroup/memory/memory.limit_in_bytes=" + unlimited, "sys/fs/cgroup/memory/memory.usage_in_bytes=900000",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes=500000", "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes=300000",
			"sys/fs/cgroup/memory/a/b/memory.stat=cache 9;total_inactive_file 1000;total_active_file 7"},
			Room{201000, "the daemon's control group"}},
		{"the group above has less", []string{machine, "proc/self/cgroup=4:memory:/a/b",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes=500000", "sys/fs/cgroup/memory/a/memory.usage_in_bytes=499000",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes=500000", "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes=300000"},
			Room{1000, "the daemon's control group"}},
		{"in a container, where the path is not there", []string{machine, "proc/self/cgroup=4:memory:/docker/b",
			"sys/fs/cgroup/memory/memory.limit_in_bytes=500000", "sys/fs/cgroup/memory/memory.usage_in_bytes=100000"},
			Room{400000, "the daemon's control group"}},
		{"version 2", []string{machine, "proc/self/cgroup=0::/system.slice/polycubed.service",
			"sys/fs/cgroup/system.slice/memory.max=max", "sys/fs/cgroup/system.slice/memory.current=7",
			"sys/fs/cgroup/system.slice/polycubed.service/memory.max=1000000", "sys/fs/cgroup/system.slice/polycubed.service/memory.current=600000",
			"sys/fs/cgroup/system.slice/polycubed.service/memory.stat=inactive_anon 5;inactive_file 50000"},
			Room{450000, "the daemon's control group"}},
		{"more is used than there may be", []string{machine, "proc/self/cgroup=0::/x", "sys/fs/cgroup/x/memory.max=1000", "sys/fs/cgroup/x/memory.current=2000"},
			Room{0, "the daemon's control group"}},
		{"the group has more than the machine", []string{machine, "proc/self/cgroup=0::/x", "sys/fs/cgroup/x/memory.max=1000000000", "sys/fs/cgroup/x/memory.current=2000"},
			Room{2000 << 10, "the machine"}},
	} {
		if got := available(tree(t, tt.files...)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestThisMachineHasMemory(t *testing.T) {
	if got := Available(); got.Bytes < 1<<20 || got.Bytes == math.MaxUint64 {
		t.Errorf("%+v is available", got)
	}
}
