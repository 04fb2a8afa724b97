// SPDX-License-Identifier: Apache-2.0

package commands

// The program iptables-import: rules of a host, which it has from iptables-save or from nft, become those of the filter chains.
// What cannot be imported is left out and reported.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/nft"
	"github.com/polycube/polycube/iptables/source"
)

// ImportProgram is its name.
const ImportProgram = "iptables-import"

// LeftOut is the exit status of an import that has left out rules; those that it could import are in effect.
const LeftOut = 3

// Imported is what an import changes, and what it prints.
type Imported struct {
	Edits  map[language.Family][]Edit
	Output string
	// Code is 0, or LeftOut.
	Code int
}

const importUsage = `Usage: iptables-import [--dry-run] [--json] [-c] [-4|-6] [FILE]

Replaces the filter chains by those in FILE, or in the standard input: what
iptables-save or ip6tables-save prints, or both together, or nft -j list ruleset.
Rules that cannot be imported are left out and reported.

  --dry-run       only report, change nothing
  --json          report in JSON
  -c, --counters  import the counters of rules, too
  -4, -6          the rules are those of iptables, or of ip6tables

Exit status: 0 if all rules were imported, 3 if some were left out, 1 or 2 for an
error; then nothing has changed.
`

// Import carries out the program. check says why the cube cannot carry out a rule, or returns nil.
func (views Views) Import(check func(*language.Rule) error, args []string, input string) (Imported, error) {
	f, err := readFlags(args, map[string]byte{
		"--dry-run": 'd', "--json": 'j', "-c": 'c', "--counters": 'c', "-4": '4', "-6": '6', "-h": 'h', "--help": 'h',
	}, "")
	switch {
	case err != nil:
		return Imported{}, err
	case f.set['h']:
		return Imported{Output: importUsage}, nil
	case f.set['4'] && f.set['6']:
		return Imported{}, &Error{badParameter, "use -4 or -6, not both"}
	}
	rules, err := readSource(&f, input)
	if err != nil {
		return Imported{}, &Error{badParameter, err.Error()}
	}
	sift(rules, check)
	out := Imported{Edits: map[language.Family][]Edit{}}
	for family := range rules.Chains {
		v, err := views(family, filter)
		if err != nil {
			return Imported{}, err
		}
		t := tableOf(rules, family)
		r, err := Restore(v, &t, false, f.set['c'])
		if err != nil {
			return Imported{}, fmt.Errorf("%s: %w", family, err)
		}
		out.Edits[family] = r.Edits
	}
	if f.set['d'] {
		out.Edits = nil
	}
	report := newReport(rules, f.set['d'])
	if report.left() > 0 {
		out.Code = LeftOut
	}
	if f.set['j'] {
		out.Output, err = report.json()
	} else {
		out.Output, err = report.text()
	}
	return out, err
}

// readSource reads the input, of which it finds out what it is.
func readSource(f *flags, input string) (*source.Set, error) {
	if strings.HasPrefix(strings.TrimSpace(input), "{") {
		if f.set['4'] || f.set['6'] {
			return nil, fmt.Errorf("-4 and -6 are for what iptables-save prints: in the JSON of nft, the tables have families")
		}
		return nft.Read(input)
	}
	family := language.Family(0)
	if f.set['4'] {
		family = language.IPv4
	} else if f.set['6'] {
		family = language.IPv6
	}
	return source.ReadSave(family, strings.NewReader(input))
}

// sift leaves out what the cube cannot carry out, and jumps to chains that are not imported.
func sift(rules *source.Set, check func(*language.Rule) error) {
	chains := map[language.Family]map[string]bool{}
	for family, list := range rules.Chains {
		chains[family] = map[string]bool{}
		for _, c := range list {
			chains[family][c.Name] = true
		}
	}
	for i := range rules.Rules {
		r := &rules.Rules[i]
		for _, one := range r.Rules {
			err := check(&one)
			if j, ok := one.Target.(language.Jump); ok && !chains[one.Family][j.Chain] {
				err = fmt.Errorf("chain %s is not imported", j.Chain)
			}
			if !chains[one.Family][r.Chain] {
				err = fmt.Errorf("chain %s is not imported", r.Chain)
			}
			if err != nil {
				r.Leave(one.Family, err)
			}
		}
	}
}

// tableOf returns the chains of a family in the form of the save format.
func tableOf(rules *source.Set, family language.Family) language.Table {
	t := language.Table{Name: filter, Chains: rules.Chains[family]}
	for _, r := range rules.Rules {
		of := slices.DeleteFunc(slices.Clone(r.Rules), func(one language.Rule) bool { return one.Family != family })
		if len(of) > 0 {
			t.Commands = append(t.Commands, language.Command{Family: family, Table: filter, Op: 'A', Chain: r.Chain, Rules: of})
		}
	}
	return t
}

// importReport is what is printed.
type importReport struct {
	Rules    int       `json:"rules"`
	Imported int       `json:"imported"`
	DryRun   bool      `json:"dry-run"`
	LeftOut  []leftOut `json:"left-out"`
	// Sets are those that imported rules compare with: they match nothing until there are cubes of these names.
	Sets    []string `json:"sets"`
	handles bool
}

// leftOut is a rule that was not imported, or not for both families.
type leftOut struct {
	Line      uint64 `json:"line,omitempty"`
	Handle    uint64 `json:"handle,omitempty"`
	Where     string `json:"where,omitempty"`
	Rule      string `json:"rule"`
	Reason    string `json:"reason"`
	WithoutIt string `json:"without-it"`
}

func newReport(rules *source.Set, dry bool) *importReport {
	r := &importReport{Rules: len(rules.Rules), DryRun: dry, LeftOut: []leftOut{}, Sets: []string{}, handles: rules.Handles}
	for _, one := range rules.Rules {
		r.noteSets(one.Rules)
		if len(one.Reasons) == 0 {
			r.Imported++
			continue
		}
		l := leftOut{Where: one.Where, Rule: one.Text, Reason: strings.Join(one.Reasons, "; "), WithoutIt: one.Effect.String()}
		if len(one.Rules) > 0 {
			l.Reason = fmt.Sprintf("only imported for %s: %s", one.Rules[0].Family, l.Reason)
		}
		if r.handles {
			l.Handle = one.At
		} else {
			l.Line = one.At
		}
		r.LeftOut = append(r.LeftOut, l)
	}
	return r
}

// noteSets notes the sets that rules compare with.
func (r *importReport) noteSets(rules []language.Rule) {
	for _, one := range rules {
		for _, m := range one.Matches {
			if s, ok := m.(language.Set); ok && !slices.Contains(r.Sets, s.Set) {
				r.Sets = append(r.Sets, s.Set)
			}
		}
	}
}

func (r *importReport) left() int { return len(r.LeftOut) }

func (r *importReport) json() (string, error) {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	err := to.Encode(r)
	return out.String(), err
}

// maxShown is how much of a rule a line of the report has.
const maxShown = 100

func (r *importReport) text() (string, error) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	if r.left() > 0 {
		fmt.Fprintf(w, "%s\tRULE\tREASON\tWITHOUT IT\n", map[bool]string{true: "HANDLE", false: "LINE"}[r.handles])
	}
	for _, l := range r.LeftOut {
		rule := l.Rule
		if l.Where != "" {
			rule = l.Where + ": " + rule
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", l.Line+l.Handle, shown(rule), shown(l.Reason), l.WithoutIt)
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	if len(r.Sets) > 0 {
		fmt.Fprintf(&out, "rules match by these sets, which must be cubes ipset, with their addresses: %s\n", shown(strings.Join(r.Sets, ", ")))
	}
	verb := map[bool]string{true: "would import", false: "imported"}[r.DryRun]
	fmt.Fprintf(&out, "%s %d of %d rules; %d left out\n", verb, r.Imported, r.Rules, r.left())
	return out.String(), nil
}

// shown returns text for a column: without what a terminal would obey, and not too long.
func shown(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxShown {
		return string(runes[:maxShown-3]) + "..."
	}
	return text
}
