// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// document generates a cube in two spellings: ours, and that of RFC 7951 for
// yanglint. Values are valid most of the time.
type document struct {
	r    *rand.Rand
	ours strings.Builder
	rfc  strings.Builder
}

func (d *document) both(s string) {
	d.ours.WriteString(s)
	d.rfc.WriteString(s)
}

// samples holds values of types and base types; the last one of each is
// invalid for most leaves of the type.
var samples = map[string][]string{
	"int8": {"0", "-128", "127", "128"}, "int16": {"0", "-32768", "32768"}, "int32": {"-5", "100", "4", "6"},
	"uint8": {"1", "2", "3", "255", "256"}, "uint16": {"0", "80", "65535", "-1"},
	"uint32": {"0", "10", "4294967295", "4294967296"}, "boolean": {"true", "false", "true", "7"},
	"string":       {`"p1"`, `"p2"`, `"ab"`, `"AB"`, `""`, `"a b"`, `"10.0.0.1"`, `"10.0.0.0/8"`, `"02:00:00:00:00:01"`, `"a:b"`, "7"},
	"ipv4-address": {`"10.0.0.1"`, `"0.0.0.0"`, `"10.0.0"`}, "ipv4-prefix": {`"10.0.0.0/8"`, `"10.1.2.3/8"`, `"10.0.0.0"`},
	"mac-address":           {`"02:00:00:00:00:01"`, `"02:00:00:00:00"`},
	"ip-address-and-prefix": {`"10.1.2.3/8"`, `"2001:db8::1/64"`, `"10.1.2.3"`},
	"leafref":               {`"p1"`, `"p1"`, `"p1"`, `"p2"`}, "name": {`"p1"`, `"p2"`, `"p3"`, `"a:b"`},
	"word": {`"ab"`, `"abcd"`, `"AB"`}, "code": {`"AB"`, `"C"`, `"ab"`},
	"binary": {`"AQI="`, `"AQIDBAU="`, `"?"`}, "bits": {`"fast"`, `"safe"`, `"slow"`},
	"identityref": {`"cat"`, `"dog"`, `"cow"`}, "union": {`80`, `"any"`, `"10.0.0.1"`, `"x y"`},
}

// scalar writes a value of a leaf.
func (d *document) scalar(n *Node) {
	quoted := n.typ.Base == "int64" || n.typ.Base == "uint64" || n.typ.Base == "decimal64"
	switch {
	case quoted:
		v := []string{"0", "7", "1", "2.5", "-1", "99999999999999999999"}[d.r.IntN(3+3*d.bad())]
		d.ours.WriteString(v)
		d.rfc.WriteString(`"` + v + `"`)
	case n.typ.Base == "empty":
		d.ours.WriteString("true")
		d.rfc.WriteString("[null]")
	case n.typ.Base == "enumeration":
		d.both(`"` + append(n.typ.Enums[:len(n.typ.Enums):len(n.typ.Enums)], "nix")[d.r.IntN(len(n.typ.Enums)+d.bad())] + `"`)
	default:
		from := samples[n.typ.Base]
		for _, name := range []string{n.name, bare(n.typ.Name)} {
			if better, ok := samples[name]; ok {
				from = better
				break
			}
		}
		d.both(from[d.r.IntN(len(from)-1+d.bad())])
	}
}

// bad is 1 now and then.
func (d *document) bad() int {
	if d.r.IntN(15) == 0 {
		return 1
	}
	return 0
}

// object writes the members of n; top tells that they carry the module's name.
func (d *document) object(n *Node, top bool) {
	d.both("{")
	comma := ""
	for _, c := range n.children {
		chance := 4
		if top || c.key || c.mandatory {
			chance = 2
		}
		skip := d.r.IntN(chance) > 0
		if c.key || c.mandatory {
			skip = d.r.IntN(40) == 0
		}
		if !c.config {
			skip = d.r.IntN(60) > 0
		}
		if skip || c.kind == Action || c.name == "service-name" {
			continue
		}
		d.both(comma)
		comma = ","
		d.ours.WriteString(fmt.Sprintf("%q:", c.name))
		if top {
			d.rfc.WriteString(`"zoo:` + c.name + `":`)
		} else {
			d.rfc.WriteString(fmt.Sprintf("%q:", c.name))
		}
		d.member(c)
	}
	d.both("}")
}

func (d *document) member(n *Node) {
	switch n.kind {
	case Leaf:
		d.scalar(n)
	case Container:
		d.object(n, false)
	default:
		d.both("[")
		for i := range d.r.IntN(4) {
			if i > 0 {
				d.both(",")
			}
			if n.kind == LeafList {
				d.scalar(n)
			} else {
				d.object(n, false)
			}
		}
		d.both("]")
	}
}

// TestAgainstYanglint gives the same documents to an edit and to libyang's own
// tool: what one accepts, the other must accept.
func TestAgainstYanglint(t *testing.T) {
	tool, err := exec.LookPath("yanglint")
	if err != nil {
		t.Skip("yanglint is not installed")
	}
	s := load(t, "zoo")
	accepted, refused := 0, 0
	for seed := range uint64(150) {
		d := &document{r: rand.New(rand.NewPCG(seed, 7))}
		d.object(s.root, true)
		file := filepath.Join(t.TempDir(), "cube.json")
		if err := os.WriteFile(file, []byte(d.rfc.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, lintErr := exec.Command(tool, "-t", "config", "-F", "zoo:", "-p", "../../yang", "-p", "testdata",
			"testdata/zoo.yang", file).CombinedOutput()
		var exit *exec.ExitError
		if lintErr != nil && !errors.As(lintErr, &exit) {
			t.Fatalf("run yanglint: %v", lintErr)
		}
		tree := s.NewTree()
		_, editErr := tree.Edit(Create, nil, []byte(d.ours.String()))
		tree.Close()
		if (lintErr == nil) != (editErr == nil) {
			t.Errorf("seed %d: %s\nyanglint: %v %s\nedit: %v", seed, d.ours.String(), lintErr, out, editErr)
		}
		if editErr == nil {
			accepted++
		} else {
			refused++
		}
	}
	t.Logf("%d documents accepted, %d refused", accepted, refused)
	if accepted < 15 || refused < 15 {
		t.Errorf("the documents are one-sided: %d accepted, %d refused", accepted, refused)
	}
}
