// SPDX-License-Identifier: Apache-2.0

// Packages come from the same source as this machine's own: the same mirror, keys and proxy, the same release. They are
// unpacked, not installed: none of their scripts runs, so that the root of another architecture is created the same
// way.

package kernels

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// keyring contains the keys of Debian's archives; every Debian machine has it.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// apt is a package manager with its own state, in dir; this machine's is not touched.
type apt struct {
	dir, arch string
}

// newApt creates the state and fetches the package lists of this machine's release, its updates and its backports.
func newApt(ctx context.Context, dir, arch string) (*apt, error) {
	a := &apt{dir, arch}
	for _, d := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	sources, err := sources(ctx)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string]string{"status": "", "sources.list": sources} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	_, err = a.run(ctx, "apt-get", "update")
	return a, err
}

// sources are lines for this machine's release. Its backports are on the same mirror: Debian 12's newest kernels are there.
func sources(ctx context.Context) (string, error) {
	codename, err := codename()
	if err != nil {
		return "", err
	}
	out, err := output(exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)",
		"Created-By: Packages", "Origin: Debian", "Component: main"))
	if err != nil {
		return "", err
	}
	var lines []string
	add := func(uri, suite string) {
		line := fmt.Sprintf("deb [signed-by=%s] %s %s main", keyring, uri, suite)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for line := range strings.Lines(out) {
		suite, uri, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(suite, codename) {
			continue
		}
		add(uri, suite)
		if suite == codename {
			add(uri, codename+"-backports")
		}
	}
	if len(lines) == 0 {
		return "", fmt.Errorf("apt has no lists of Debian %s: run apt-get update", codename)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// codename is the release of this machine, like bookworm: programs built here run with its libraries.
func codename() (string, error) {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "VERSION_CODENAME="); ok {
			return name, nil
		}
	}
	return "", cmp.Or(lines.Err(), fmt.Errorf("/etc/os-release: VERSION_CODENAME is missing: a Debian machine is needed"))
}

// run runs a program of apt with the separate state.
func (a *apt) run(ctx context.Context, program string, args ...string) (string, error) {
	return a.runIn(ctx, "", program, args...)
}

func (a *apt) runIn(ctx context.Context, dir, program string, args ...string) (string, error) {
	options := []string{
		"Dir::State=" + a.dir, "Dir::State::status=" + filepath.Join(a.dir, "status"), "Dir::State::lists=" + filepath.Join(a.dir, "lists"),
		"Dir::Cache=" + a.dir, "Dir::Cache::archives=" + filepath.Join(a.dir, "archives"),
		"Dir::Etc::SourceList=" + filepath.Join(a.dir, "sources.list"), "Dir::Etc::SourceParts=/dev/null",
		"Dir::Etc::Preferences=/dev/null", "Dir::Etc::PreferencesParts=/dev/null",
		"APT::Architecture=" + a.arch, "APT::Architectures=" + a.arch, "Acquire::Languages=none",
		"APT::Sandbox::User=root", "APT::Install-Recommends=false", "Debug::NoLocking=true",
		"APT::Keep-Downloaded-Packages=true", "Acquire::Retries=3",
		// Descriptions of desktop applications and indexes of files are larger than the packages.
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false", "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
	}
	var flags []string
	for _, o := range options {
		flags = append(flags, "-o", o)
	}
	cmd := exec.CommandContext(ctx, program, append(flags, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C.UTF-8")
	return output(cmd)
}

// fetch downloads packages with all their dependencies, as for an empty machine, and returns the files.
func (a *apt) fetch(ctx context.Context, packages ...string) ([]string, error) {
	archives := filepath.Join(a.dir, "archives")
	old, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return nil, err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	if _, err := a.run(ctx, "apt-get", append([]string{"install", "-q", "-y", "--download-only"}, packages...)...); err != nil {
		return nil, fmt.Errorf("fetch packages: %w", err)
	}
	return filepath.Glob(filepath.Join(archives, "*.deb"))
}

// fetchOne downloads a package alone into dir, and returns the file.
func (a *apt) fetchOne(ctx context.Context, name, version, dir string) (string, error) {
	if _, err := a.runIn(ctx, dir, "apt-get", "download", "-q", name+"="+version); err != nil {
		return "", fmt.Errorf("fetch %s: %w", name, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("fetch %s: %d files in %s", name, len(files), dir)
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// unpack unpacks a package's files below a directory, and leaves links to directories there alone.
func unpack(ctx context.Context, deb, under string) error {
	pack := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	tar := exec.CommandContext(ctx, "tar", "-C", under, "--keep-directory-symlink", "--same-owner", "-xpf", "-")
	pipe, err := pack.StdoutPipe()
	if err != nil {
		return err
	}
	tar.Stdin = pipe
	if err := pack.Start(); err != nil {
		return err
	}
	_, err = output(tar)
	if err = errors.Join(err, pack.Wait()); err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
	}
	return nil
}

// output runs a command; an error contains the end of its output.
func output(cmd *exec.Cmd) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, lastLines(errs.String()+out.String(), 5))
	}
	return out.String(), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
