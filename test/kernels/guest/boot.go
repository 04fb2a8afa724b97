// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// diskPatience is how long the disks may take to appear after their driver.
const diskPatience = 5 * time.Minute

// disk is where the root is mounted before the machine moves there.
const disk = "/disk"

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// Init is the first process of the initial RAM disk: it returns only with an error.
func Init() error {
	if err := mountAll("", []mount{{"devtmpfs", "/dev", "devtmpfs", 0, ""}}); err != nil {
		return err
	}
	if err := loadEarly(EarlyModules); err != nil {
		return err
	}
	disks := []mount{
		{RootDisk, disk, "ext4", unix.MS_NOATIME, ""},
		{ModulesDisk, disk + "/usr/lib/modules", "ext4", unix.MS_RDONLY, ""},
		{TreeDisk, disk + Tree, "ext4", unix.MS_NOATIME, ""},
	}
	for _, d := range disks {
		if err := appears(d.source); err != nil {
			return err
		}
	}
	if err := mountAll("", disks); err != nil {
		return err
	}
	if err := moveTo(disk); err != nil {
		return err
	}
	return unix.Exec(Binary, []string{Binary, "boot"}, os.Environ())
}

// loadEarly inserts the modules that a list names, in its order.
func loadEarly(list string) error {
	f, err := os.Open(list)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if err := insert(lines.Text()); err != nil {
			return fmt.Errorf("module %s: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

func insert(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

func appears(device string) error {
	for deadline := time.Now().Add(diskPatience); ; time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat(device)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func mountAll(under string, mounts []mount) error {
	for _, m := range mounts {
		target := filepath.Join("/", under, m.target)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.source, target, err)
		}
	}
	return nil
}

// moveTo makes a mount the root of the machine, with /dev in it.
func moveTo(root string) error {
	if err := unix.Mount("/dev", root+"/dev", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move /dev: %w", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return os.Chdir("/")
}

// system are the mounts of a booted Linux.
var system = []mount{
	{"proc", "/proc", "proc", 0, ""},
	{"sysfs", "/sys", "sysfs", 0, ""},
	{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID, "mode=755"},
	{"tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID, "mode=1777"},
	{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID, "mode=1777"},
	{"devpts", "/dev/pts", "devpts", 0, "mode=620,gid=5,ptmxmode=666"},
	{"bpf", "/sys/fs/bpf", "bpf", 0, "mode=700"},
	{"cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""},
	{"debugfs", "/sys/kernel/debug", "debugfs", 0, "mode=700"},
	{"tracefs", "/sys/kernel/tracing", "tracefs", 0, "mode=700"},
}

// environment of everything that runs in the machine.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/tmp", "USER=root", "LANG=C.UTF-8", "TERM=dumb",
}

// Boot is the first process on the disk: it starts the runner, reaps, and switches the machine off.
func Boot() error {
	if err := mountAll("", system); err != nil {
		return err
	}
	for link, target := range map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2"} {
		if err := os.Symlink(target, link); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if err := unix.Sethostname([]byte("polycube")); err != nil {
		return err
	}
	runner, err := os.StartProcess(Binary, []string{Binary, "run"}, &os.ProcAttr{
		Env: environment, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return err
	}
	return reapUntil(runner.Pid)
}

// reapUntil collects every child until the one with this number ends.
func reapUntil(pid int) error {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case got == pid && status.ExitStatus() != 0:
			return fmt.Errorf("the runner of the plan ended: status %d, signal %v", status.ExitStatus(), status.Signal())
		case got == pid:
			return nil
		}
	}
}

// Off powers the machine off: the emulator was started without reboot.
func Off() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // if it fails, the host's deadline applies
}

// modprobe loads a module with its dependencies.
func modprobe(name string) error {
	if out, err := exec.Command("modprobe", name).CombinedOutput(); err != nil {
		return fmt.Errorf("modprobe %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
