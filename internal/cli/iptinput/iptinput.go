// SPDX-License-Identifier: Apache-2.0

// Package iptinput is what the programs pcn-iptables-save and -restore know of their arguments and their input: where that is,
// and of which tables they are. The rest is known to the cubes.
package iptinput

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Restored returns what a program that restores or imports reads: the file that its last argument names, or the standard input.
func Restored(stdin io.Reader, args []string) (text string, rest []string, err error) {
	if last := len(args) - 1; last >= 0 && !strings.HasPrefix(args[last], "-") && !takesValue(args[:last]) {
		f, err := os.Open(args[last])
		if err != nil {
			return "", nil, err
		}
		defer f.Close()
		text, err = read(f)
		return text, args[:last], err
	}
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") || slices.Contains(args, "-V") || slices.Contains(args, "--version") {
		return "", args, nil
	}
	text, err = read(stdin)
	return text, args, err
}

// maxInput is above what the daemon takes in one request.
const maxInput = 32 << 20

// read reads rules, and refuses more than maxInput bytes: a part of them would be another rule set.
func read(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err == nil && len(raw) > maxInput {
		err = fmt.Errorf("the input is larger than %d MiB: divide it, and restore all parts but the first with --noflush", maxInput>>20)
	}
	return string(raw), err
}

// takesValue reports whether the last option may be followed by a value.
func takesValue(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"-w", "--wait", "-W", "--wait-interval", "-T", "--table", "-M", "--modprobe"}, args[len(args)-1])
}

// HasTable reports whether what iptables-restore reads has a table.
func HasTable(input, table string) bool {
	for line := range strings.Lines(input) {
		if strings.TrimRight(line, " \t\r\n") == "*"+table {
			return true
		}
	}
	return false
}

// NamesTable reports whether the arguments of iptables-save say of which table.
func NamesTable(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "--t") || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "t")
	})
}

// RestoresOne reports whether the arguments of iptables-restore say which table of the input is restored.
func RestoresOne(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "-T" || strings.HasPrefix(a, "--table") })
}
