// SPDX-License-Identifier: Apache-2.0

// Documents for a model: random configurations that are valid as far as types and keys go, each in two spellings, ours and
// that of RFC 7951.

package yang_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/yang"
)

// datum is a value in a document: an object, an array, or a scalar. Mutations put anything anywhere.
type datum struct {
	node *yang.Node
	// members of an object, items of an array.
	members []named
	items   []*datum
	kind    byte // 'o' object, 'a' array, 's' scalar
	// ours and rfc are the JSON of a scalar.
	ours, rfc string
	// text is the scalar's value, which keys and references compare.
	text string
}

type named struct {
	name  string
	value *datum
}

func (d *datum) member(name string) *datum {
	for _, m := range d.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (d *datum) clone() *datum {
	out := *d
	out.members = slices.Clone(d.members)
	for i := range out.members {
		out.members[i].value = out.members[i].value.clone()
	}
	out.items = slices.Clone(d.items)
	for i := range out.items {
		out.items[i] = out.items[i].clone()
	}
	return &out
}

// write prints a document; module is what begins the names of the top in RFC 7951, "" prints our spelling.
func (d *datum) write(b *bytes.Buffer, module string, top bool) {
	switch d.kind {
	case 's':
		if module == "" {
			b.WriteString(d.ours)
		} else {
			b.WriteString(d.rfc)
		}
	case 'a':
		b.WriteByte('[')
		for i, item := range d.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b, module, false)
		}
		b.WriteByte(']')
	default:
		b.WriteByte('{')
		for i, m := range d.members {
			if i > 0 {
				b.WriteByte(',')
			}
			name := m.name
			if top && module != "" {
				name = module + ":" + name
			}
			b.WriteString(quoted(name) + ":")
			m.value.write(b, module, false)
		}
		b.WriteByte('}')
	}
}

func (d *datum) json(module string) string {
	var b bytes.Buffer
	d.write(&b, module, true)
	return b.String()
}

func quoted(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func text(s string) *datum { return &datum{kind: 's', ours: quoted(s), rfc: quoted(s), text: s} }

func raw(s string) *datum { return &datum{kind: 's', ours: s, rfc: s, text: s} }

// generator makes documents of one model.
type generator struct {
	*rand.Rand
	root *datum
	// density is how many of ten optional members are there.
	density int
}

// chance is true with a probability of n in m.
func (g *generator) chance(n, m int) bool { return g.IntN(m) < n }

// document makes a configuration.
func (g *generator) document(root *yang.Node) *datum {
	g.root = g.object(root)
	g.references(g.root, root)
	return g.root
}

// object makes the members of a container, entry or cube.
func (g *generator) object(n *yang.Node) *datum {
	d := &datum{kind: 'o', node: n}
	var taken []*yang.Node
	children := slices.Clone(n.Children())
	if g.chance(1, 2) { // so that each alternative of a choice has its turn
		slices.Reverse(children)
	}
	for _, c := range children {
		if !c.Config() || c.Kind() == yang.Action || c.Name() == "service-name" ||
			slices.ContainsFunc(taken, func(o *yang.Node) bool { return c.Excludes(o) }) {
			continue
		}
		if !c.Mandatory() && !g.chance(g.density, 10) {
			continue
		}
		value := g.value(c)
		if value == nil {
			continue
		}
		taken = append(taken, c)
		d.members = append(d.members, named{c.Name(), value})
	}
	return d
}

func (g *generator) value(n *yang.Node) *datum {
	switch n.Kind() {
	case yang.Leaf:
		return g.scalar(n, n.Type())
	case yang.Container:
		return g.object(n)
	}
	d := &datum{kind: 'a', node: n}
	most := 4
	if n.MaxElements() > 0 {
		most = min(most, n.MaxElements()+1)
	}
	for range max(n.MinElements(), g.IntN(most)) {
		entry := g.entry(n)
		if !slices.ContainsFunc(d.items, func(o *datum) bool { return identity(n, o) == identity(n, entry) }) {
			d.items = append(d.items, entry)
		}
	}
	return d
}

func (g *generator) entry(n *yang.Node) *datum {
	if n.Kind() == yang.LeafList {
		return g.scalar(n, n.Type())
	}
	return g.object(n)
}

// identity is what makes an entry the same as another.
func identity(n *yang.Node, entry *datum) string {
	if n.Kind() == yang.LeafList {
		return entry.text
	}
	var keys []string
	for _, k := range n.Keys() {
		if v := entry.member(k.Name()); v != nil {
			keys = append(keys, v.text)
		}
	}
	return fmt.Sprintf("%q", keys)
}

// scalar makes a value of a type.
func (g *generator) scalar(n *yang.Node, t yang.Type) *datum {
	d := g.plain(t)
	d.node = n
	return d
}

func (g *generator) plain(t yang.Type) *datum {
	switch t.Base {
	case "int8", "int16", "int32", "uint8", "uint16", "uint32":
		v := g.number(t.Range, 0)
		d := raw(v)
		if g.chance(1, 8) { // ours alone: a number in quotes
			d.ours = quoted(v)
		}
		return d
	case "int64", "uint64", "decimal64":
		v := g.number(t.Range, t.FractionDigits)
		d := &datum{kind: 's', ours: v, rfc: quoted(v), text: v}
		if g.chance(1, 2) {
			d.ours = quoted(v)
		}
		return d
	case "boolean":
		return raw(fmt.Sprint(g.chance(1, 2)))
	case "empty":
		return &datum{kind: 's', ours: []string{"true", "[null]"}[g.IntN(2)], rfc: "[null]"}
	case "enumeration":
		return g.enum(t.Enums)
	case "identityref":
		return text(t.Enums[g.IntN(len(t.Enums))])
	case "bits":
		var bits []string
		for _, i := range g.Perm(len(t.Enums))[:g.IntN(len(t.Enums)+1)] {
			bits = append(bits, t.Enums[i])
		}
		return text(strings.Join(bits, " "))
	case "binary":
		b := make([]byte, g.length(t.Length))
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		return text(base64.StdEncoding.EncodeToString(b))
	case "union":
		return g.plain(t.Union[g.IntN(len(t.Union))])
	}
	return text(g.string(t))
}

// enum spells a name as the model does, and in our spelling sometimes in another case.
func (g *generator) enum(names []string) *datum {
	name := names[g.IntN(len(names))]
	d := text(name)
	alone := func(other string) bool { return other == name || !strings.EqualFold(other, name) }
	if g.chance(1, 4) && !slices.ContainsFunc(names, func(o string) bool { return !alone(o) }) {
		d.ours = quoted(strings.ToLower(name))
	}
	return d
}

// part is one of the parts of a range or length.
func (g *generator) part(bounds string) (low, high *big.Rat) {
	parts := strings.Split(bounds, "|")
	from, to, several := strings.Cut(strings.TrimSpace(parts[g.IntN(len(parts))]), "..")
	if !several {
		to = from
	}
	low, lowOK := new(big.Rat).SetString(from)
	high, highOK := new(big.Rat).SetString(to)
	if !lowOK || !highOK {
		panic("not a range: " + bounds)
	}
	return low, high
}

// number is within a range, often at one of its ends.
func (g *generator) number(bounds string, digits int) string {
	unit := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil))
	low, high := big.NewRat(-99, 1), big.NewRat(99, 1)
	if bounds != "" {
		low, high = g.part(bounds)
	}
	if digits > 0 && g.chance(1, 4) {
		unit = big.NewRat(1, 1)
	}
	v := new(big.Rat).Set(low)
	switch g.IntN(4) {
	case 0:
	case 1:
		v.Set(high)
	case 2: // near the lower end, or the small numbers that references and rules like
		v.Add(v, new(big.Rat).Mul(unit, big.NewRat(int64(g.IntN(12)), 1)))
	default:
		steps := new(big.Rat).Quo(new(big.Rat).Sub(high, low), unit)
		n := new(big.Int).Quo(steps.Num(), steps.Denom())
		n.Mul(n, big.NewInt(int64(g.IntN(1<<20)))).Rsh(n, 20)
		v.Add(v, new(big.Rat).Mul(unit, new(big.Rat).SetInt(n)))
	}
	if v.Cmp(high) > 0 {
		v.Set(high)
	}
	s := v.FloatString(digits)
	if digits > 0 && g.chance(1, 2) {
		if s = strings.TrimRight(s, "0"); strings.HasSuffix(s, ".") {
			s += "0"
		}
	}
	return s
}

func (g *generator) length(bounds string) int {
	if bounds == "" {
		return g.IntN(6)
	}
	low, high := g.part(bounds)
	from, to := int(low.Num().Int64()), int(high.Num().Int64())
	return from + g.IntN(min(to-from, 8)+1)
}

// string makes one that fits a type: of its own patterns, or of any characters.
func (g *generator) string(t yang.Type) string {
	var best string
	for range 50 {
		if len(t.Patterns) == 0 {
			best = g.characters(g.length(t.Length))
		} else {
			best = g.matching(t.Patterns[g.IntN(len(t.Patterns))])
		}
		if openapi.Fits(t, best) {
			return best
		}
	}
	return best
}

const alphabet = "abcdefgxyzABZ0123456789-_./: \"'\\é中\t"

func (g *generator) characters(n int) string {
	letters := []rune(alphabet)
	out := make([]rune, n)
	for i := range out {
		out[i] = letters[g.IntN(len(letters))]
	}
	return string(out)
}

// matching makes a string that a pattern matches.
func (g *generator) matching(xsd string) string {
	ecma, _, ok := openapi.Pattern(xsd)
	re, err := syntax.Parse(ecma, syntax.Perl)
	if !ok || err != nil {
		return g.characters(g.IntN(6))
	}
	var b strings.Builder
	g.expand(&b, re.Simplify())
	return b.String()
}

func (g *generator) expand(b *strings.Builder, re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		b.WriteRune(g.ofClass(re.Rune))
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			g.expand(b, sub)
		}
	case syntax.OpAlternate:
		g.expand(b, re.Sub[g.IntN(len(re.Sub))])
	case syntax.OpQuest:
		g.repeat(b, re.Sub[0], 0, 1)
	case syntax.OpStar:
		g.repeat(b, re.Sub[0], 0, 3)
	case syntax.OpPlus:
		g.repeat(b, re.Sub[0], 1, 3)
	case syntax.OpRepeat:
		most := re.Max
		if most < 0 {
			most = re.Min + 3
		}
		g.repeat(b, re.Sub[0], re.Min, most)
	}
}

func (g *generator) repeat(b *strings.Builder, re *syntax.Regexp, least, most int) {
	for range least + g.IntN(most-least+1) {
		g.expand(b, re)
	}
}

// ofClass is a character of a class, mostly one that can be typed.
func (g *generator) ofClass(ranges []rune) rune {
	var plain []rune
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], utf8.RuneSelf-1); r++ {
			if r >= ' ' && r < 127 {
				plain = append(plain, r)
			}
		}
		if ranges[i] <= 'é' && ranges[i+1] >= 'é' {
			plain = append(plain, 'é')
		}
	}
	if len(plain) == 0 {
		return ranges[0]
	}
	return plain[g.IntN(len(plain))]
}
