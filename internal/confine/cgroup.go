// SPDX-License-Identifier: Apache-2.0

package confine

// Control groups limit all processes of a service together. The daemon creates one below its own, if it is allowed to:
// version 1 has a tree for each controller; version 2 has one tree, in which a group with processes has no child
// groups. Otherwise only the limits of each process apply, and the log says so.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// groupPrefix is the prefix of our groups, to find those of a killed daemon.
const groupPrefix = "polycube-service-"

// cpuPeriod is in microseconds: a service that has used up its share waits at most that long.
const cpuPeriod = 50_000

// groupTree is where control groups are, and the daemon's group (/proc/self/cgroup).
type groupTree struct {
	root string // /sys/fs/cgroup
	own  string // the content of /proc/self/cgroup
	// create lets tests create files, because no kernel creates them.
	create int
}

func hostGroups() (groupTree, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return groupTree{}, fmt.Errorf("find the daemon's control group: %w", err)
	}
	return groupTree{root: "/sys/fs/cgroup", own: string(own)}, nil
}

// parents are the directories in which groups can be created, with the controllers of each.
func (t groupTree) parents() map[string][]string {
	found := map[string][]string{}
	lines := bufio.NewScanner(strings.NewReader(t.own))
	for lines.Scan() {
		f := strings.SplitN(lines.Text(), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[1] == "" { // version 2, alone or together with version 1
			for _, dir := range []string{filepath.Join(t.root, f[2]), filepath.Join(t.root, "unified", f[2])} {
				if has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers")); err == nil {
					if wanted := intersect(strings.Fields(string(has))); len(wanted) > 0 {
						found[dir] = append(wanted, "")
					}
				}
			}
			continue
		}
		dir := filepath.Join(t.root, f[1], f[2])
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			if wanted := intersect(strings.Split(f[1], ",")); len(wanted) > 0 {
				found[dir] = wanted
			}
		}
	}
	return found
}

func intersect(controllers []string) []string {
	return slices.DeleteFunc(controllers, func(c string) bool { return !slices.Contains([]string{"memory", "pids", "cpu"}, c) })
}

// group is a service's group in each tree.
type group struct{ dirs []string }

// newGroup creates a group with limits. Its result must be removed even if there is an error, because parts may exist.
func (t groupTree) newGroup(name string, l Limits) (*group, error) {
	g := &group{}
	parents := t.parents()
	if len(parents) == 0 {
		return g, fmt.Errorf("no controller for memory, processes or processor time: %w", unix.ENOENT)
	}
	var errs []error
	for parent, controllers := range parents {
		unified := controllers[len(controllers)-1] == ""
		if unified {
			controllers = controllers[:len(controllers)-1]
			if err := t.delegate(parent, controllers); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		removeEmpty(parent)
		dir := filepath.Join(parent, groupPrefix+name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("create a control group: %w", err))
			continue
		}
		g.dirs = append(g.dirs, dir)
		for _, c := range controllers {
			errs = append(errs, t.set(dir, settings(c, unified, l)))
		}
	}
	return g, errors.Join(errs...)
}

// settings are the limit files of a controller. An optional one is missing if swap is not accounted.
func settings(controller string, unified bool, l Limits) [][3]string {
	memory, pids := strconv.FormatUint(l.Memory, 10), strconv.FormatUint(l.Processes, 10)
	quota := strconv.FormatUint(l.CPU*cpuPeriod/100, 10)
	switch {
	case controller == "pids":
		return [][3]string{{"pids.max", pids}}
	case controller == "memory" && unified:
		return [][3]string{{"memory.max", memory}, {"memory.swap.max", "0", "optional"}}
	case controller == "memory":
		return [][3]string{{"memory.limit_in_bytes", memory}, {"memory.memsw.limit_in_bytes", memory, "optional"}}
	case unified:
		return [][3]string{{"cpu.max", fmt.Sprintf("%s %d", quota, cpuPeriod)}}
	}
	return [][3]string{{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod)}, {"cpu.cfs_quota_us", quota}}
}

func (t groupTree) set(dir string, settings [][3]string) error {
	for _, s := range settings {
		err := writeFile(filepath.Join(dir, s[0]), s[1], t.create)
		if err != nil && (s[2] == "" || !errors.Is(err, os.ErrNotExist)) {
			return fmt.Errorf("limit a control group: %w", err)
		}
	}
	return nil
}

// writeFile writes to a kernel file, which must exist.
func writeFile(path, text string, flags int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// delegate enables controllers for groups below a group of version 2. The daemon then has to move to one of them,
// which it does if the service manager delegated the group to it (Delegate=yes).
func (t groupTree) delegate(parent string, controllers []string) error {
	control := filepath.Join(parent, "cgroup.subtree_control")
	on, err := os.ReadFile(control)
	if err != nil {
		return fmt.Errorf("read a control group: %w", err)
	}
	words := ""
	for _, c := range controllers {
		if !slices.Contains(strings.Fields(string(on)), c) {
			words += " +" + c
		}
	}
	if words == "" {
		return nil
	}
	err = writeFile(control, words, 0)
	if errors.Is(err, unix.EBUSY) && isDelegated(parent) {
		if err = leave(parent); err == nil {
			err = writeFile(control, words, 0)
		}
	}
	if err != nil {
		return fmt.Errorf("enable controllers below %s: %w", parent, err)
	}
	return nil
}

// isDelegated reports whether systemd delegated a group to the daemon.
func isDelegated(dir string) bool {
	for _, mark := range []string{"trusted.delegate", "user.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, mark, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// leave moves the group's processes, the daemon and its children, to a group below.
func leave(parent string) error {
	dir := filepath.Join(parent, "daemon")
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	pids, err := os.ReadFile(filepath.Join(parent, "cgroup.procs"))
	if err != nil {
		return err
	}
	for pid := range bytes.FieldsSeq(pids) {
		if err := writeFile(filepath.Join(dir, "cgroup.procs"), string(pid), 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// add adds a process, and its future children, to the group.
func (g *group) add(pid int) error {
	for _, dir := range g.dirs {
		if err := writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid), 0); err != nil {
			return fmt.Errorf("enter a control group: %w", err)
		}
	}
	return nil
}

// remove removes a group whose processes have ended.
func (g *group) remove() error {
	var errs []error
	for _, dir := range g.dirs {
		if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
			errs = append(errs, fmt.Errorf("remove control group %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// removeEmpty removes the groups of a killed daemon. A group with processes cannot be removed, but a new one could be:
// its creator then gets an error.
func removeEmpty(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, groupPrefix+"*"))
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && unix.Kill(n, 0) == unix.ESRCH {
			_ = unix.Rmdir(dir)
		}
	}
}
