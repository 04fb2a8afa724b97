// SPDX-License-Identifier: Apache-2.0

// The commands with separate grammars, and their flags: completion, and suggestions for a mistyped flag.

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/suggest"
)

// unknownFlag is the error about a flag that such a command does not have.
func unknownFlag(command, word string) string {
	name, _, _ := strings.Cut(word, "=")
	return fmt.Sprintf("unknown flag %q%s", word, suggest.Question(suggest.Near(name, flagsOf(command))))
}

func flagsOf(command string) []string { return slices.Sorted(maps.Keys(ownFlags(command))) }

// eventTypes are the types of events to select.
var eventTypes = []string{"config", "cube", "daemon", "netdev", "port", "relink", "service"}

// filterWords are the first words of most filters.
var filterWords = []string{"arp", "ether", "host", "icmp", "icmp6", "ip", "ip6", "net", "port", "tcp", "udp", "vlan"}

// watchWords completes such a command.
func (t *completer) watchWords(name string, words []string, current string) []string {
	if n := len(words); n > 0 && ownFlags(name)[words[n-1]] {
		return t.flagValues(words[n-1], current)
	}
	unused := slices.DeleteFunc(flagsOf(name), func(f string) bool { return slices.Contains(words, f) && f != "-f" })
	operands := func(path ...string) []string { return t.ask(command{path: path}, "word", current) }
	switch {
	case name == "masquerade":
		return t.masqueradeWords(words, current)
	case strings.HasPrefix(current, "-"):
		return unused
	case name == "capture" && len(words) == 0, slices.Contains(words, "--inject"):
		return operands("capture")
	case name == "events":
		return t.ask(command{path: []string{"cubes"}, verb: verbShow}, "word", current)
	case (name == "history" || name == "rollback") && !slices.ContainsFunc(words, isNumber):
		return slices.DeleteFunc(operands("history"), func(w string) bool { return !isNumber(w) })
	case isFileCommand(name), name == "status":
		return unused
	}
	return filterWords
}

// flagValues completes the value of a flag.
func (t *completer) flagValues(flag, current string) []string {
	switch flag {
	case "--cube":
		return t.ask(command{path: []string{"cubes"}, verb: verbShow}, "word", current)
	case "--type":
		return eventTypes
	case "-r":
		return slices.DeleteFunc(t.ask(command{path: []string{"history"}}, "word", current), func(w string) bool { return !isNumber(w) })
	case "-w", "-f", "-o":
		return files("", current)
	case "--inject":
		if file, ok := strings.CutPrefix(current, "@"); ok {
			return files("@", file)
		}
	}
	return nil
}

func isNumber(w string) bool { return w != "" && strings.Trim(w, "0123456789") == "" }
