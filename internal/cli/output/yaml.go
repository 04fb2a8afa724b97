// SPDX-License-Identifier: Apache-2.0

// People keep configurations in YAML; scripts write JSON, sometimes with single quotes or trailing commas; the daemon
// accepts only JSON. The conversion keeps member order and number literals, and limits the expansion of aliases.

package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// valueCost is the cost of a value in addition to its text, counted against MaxBody, so that aliases cannot multiply a
// small document into one that fills the memory.
const valueCost = 4

// BodyFromYAML converts a YAML or JSON document to JSON. A document without content (empty, or only comments) gives
// nil.
func BodyFromYAML(data []byte) ([]byte, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	// YAML refuses the tabs that JSON files may be indented with.
	if json.Valid(data) {
		var b bytes.Buffer
		if err := json.Compact(&b, data); err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	c := Converter{Limit: MaxBody}
	v, err := c.Value(&doc, 0)
	if err != nil {
		return nil, err
	}
	return v.AppendJSON(nil), nil
}

// Converter turns YAML into values of a size up to Limit, aliases expanded.
type Converter struct{ size, Limit int }

// Value converts a node; depth is that of its parents.
func (c *Converter) Value(n *yaml.Node, depth int) (Value, error) {
	if c.size += len(n.Value) + valueCost; c.size > c.Limit {
		return Value{}, fmt.Errorf("larger than %d MiB once aliases are expanded", c.Limit>>20)
	}
	if depth > MaxDepth {
		return Value{}, errTooDeep
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return c.Value(n.Content[0], depth)
	case yaml.AliasNode:
		return c.Value(n.Alias, depth+1)
	case yaml.SequenceNode:
		v := Value{Kind: KindArray}
		for _, item := range n.Content {
			iv, err := c.Value(item, depth+1)
			if err != nil {
				return Value{}, err
			}
			v.Items = append(v.Items, iv)
		}
		return v, nil
	case yaml.MappingNode:
		return c.mapping(n, depth)
	default:
		return scalar(n)
	}
}

func (c *Converter) mapping(n *yaml.Node, depth int) (Value, error) {
	v := Value{Kind: KindObject}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.ShortTag() == "!!merge" {
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return Value{}, fmt.Errorf("line %d: a key must be a plain scalar", key.Line)
		}
		if seen[key.Value] {
			return Value{}, fmt.Errorf("line %d: key %q is given twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		c.size += len(key.Value)
		val, err := c.Value(n.Content[i+1], depth+1)
		if err != nil {
			return Value{}, err
		}
		v.Members = append(v.Members, Member{key.Value, val})
	}
	return v, c.merge(&v, seen, n, depth)
}

// merge adds the members of the mappings that "<<" names; own members win, and
// of several mappings the first.
func (c *Converter) merge(v *Value, seen map[string]bool, n *yaml.Node, depth int) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() != "!!merge" {
			continue
		}
		from, err := c.Value(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		sources := from.Items
		if from.Kind != KindArray {
			sources = []Value{from}
		}
		for _, src := range sources {
			if src.Kind != KindObject {
				return fmt.Errorf("line %d: \"<<\" merges mappings only", n.Content[i].Line)
			}
			for _, m := range src.Members {
				if !seen[m.Key] {
					seen[m.Key] = true
					v.Members = append(v.Members, m)
				}
			}
		}
	}
	return nil
}

func scalar(n *yaml.Node) (Value, error) {
	switch n.ShortTag() {
	case "!!null":
		return Value{Kind: KindNull, Text: "null"}, nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return Value{}, fmt.Errorf("line %d: %q is not a boolean", n.Line, n.Value)
		}
		return Value{Kind: KindBool, Text: strconv.FormatBool(b)}, nil
	case "!!int", "!!float":
		return numberFromYAML(n)
	default:
		return StringValue(n.Value), nil
	}
}

func numberFromYAML(n *yaml.Node) (Value, error) {
	if json.Valid([]byte(n.Value)) {
		return Value{Kind: KindNumber, Text: n.Value}, nil
	}
	var decoded any
	if err := n.Decode(&decoded); err != nil {
		return Value{}, fmt.Errorf("line %d: %q is not a number", n.Line, n.Value)
	}
	switch d := decoded.(type) {
	case int, int64, uint64:
		return Value{Kind: KindNumber, Text: fmt.Sprint(d)}, nil
	case float64:
		if !math.IsInf(d, 0) && !math.IsNaN(d) {
			return Value{Kind: KindNumber, Text: strconv.FormatFloat(d, 'g', -1, 64)}, nil
		}
	}
	return Value{}, fmt.Errorf("line %d: JSON cannot represent the number %s", n.Line, n.Value)
}

// MaxBody is the size above which the daemon refuses a body.
const MaxBody = 8 << 20
