// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of the guide anew")

const (
	guide = "../../docs/guide/observe.md"
	// The guide's table stands behind the first of these lines.
	tableHead = "| family | kind | labels | series | |\n|---|---|---|---|---|\n"
)

// asDocument is the table of families as the guide has it.
func asDocument() string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, f := range Table() {
		labels := "-"
		if len(f.Labels) > 0 {
			labels = "`" + strings.Join(f.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Kind, labels, f.Series, f.Help)
	}
	return b.String()
}

// TestGuideHasTheFamilies: the guide's table is the one that is written by.
func TestGuideHasTheFamilies(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?m)^\| family \|(.*\n\|)*.*\n|^TABLE\n`)
	if *update {
		text = table.ReplaceAllLiteral(text, []byte(asDocument()))
		if err := os.WriteFile(guide, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(table.Find(text)); got != asDocument() {
		t.Errorf("the table of %s is another one (accept with -update):\n%s\nwant\n%s", guide, got, asDocument())
	}
}
