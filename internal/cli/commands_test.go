// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/commands"
)

// TestEveryCommandOfTheTableCanBeTyped: it has a plan or a grammar, is in the usage, explains itself and is completed.
func TestEveryCommandOfTheTableCanBeTyped(t *testing.T) {
	d := newDaemon(t, "unix", reply(http.StatusOK, `["x"]`))
	usage := d.run("-h").out
	offered := strings.Fields(d.run("__complete", "polycubectl ").out)
	var typed []string
	for _, c := range commands.All() {
		if c.Typed == nil {
			continue
		}
		typed = append(typed, c.Name)
		_, planned := plans()[c.Name]
		_, runs := runs()[c.Name]
		if planned == runs {
			t.Errorf("%s: a plan %t, a grammar of its own %t: give it one of them in alias.go", c.Name, planned, runs)
		}
		if (c.Typed.Flags != nil) != runs {
			t.Errorf("%s: flags of its own %v, a grammar of its own %t", c.Name, c.Typed.Flags, runs)
		}
		if !strings.Contains(usage, "\n  "+c.Typed.Usage+"\n") {
			t.Errorf("%s is not in the usage", c.Name)
		}
		if help := d.run(c.Name, "?").out; !strings.HasPrefix(help, "Usage: polycubectl "+c.Typed.Usage+"\n\n"+c.Typed.Description+".\n") {
			t.Errorf("%s ?: %s", c.Name, help)
		}
		if !slices.Contains(offered, c.Name) {
			t.Errorf("%s is not completed", c.Name)
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(plans())), slices.Collect(maps.Keys(runs()))) {
		if !slices.Contains(typed, name) {
			t.Errorf("%s is carried out and not in the table: add it to internal/commands", name)
		}
	}
}
