// SPDX-License-Identifier: Apache-2.0

// People keep configurations in YAML, scripts write JSON, some of it with single
// quotes or trailing commas; the daemon speaks JSON only. The conversion keeps
// member order and number literals, and bounds what aliases may expand to.

package cli

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

// valueCost is what a value counts beside its text against maxBody, so that
// aliases cannot multiply a small document into one that fills the memory.
const valueCost = 4

// bodyFromYAML converts a YAML or JSON document to JSON. A document without
// content (empty, or comments only) gives nil.
func bodyFromYAML(data []byte) ([]byte, error) {
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
	c := converter{limit: maxBody}
	v, err := c.value(&doc, 0)
	if err != nil {
		return nil, err
	}
	return v.appendJSON(nil), nil
}

type converter struct{ size, limit int }

func (c *converter) value(n *yaml.Node, depth int) (value, error) {
	if c.size += len(n.Value) + valueCost; c.size > c.limit {
		return value{}, fmt.Errorf("larger than %d MiB once aliases are expanded", c.limit>>20)
	}
	if depth > maxDepth {
		return value{}, errTooDeep
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return c.value(n.Content[0], depth)
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		v := value{kind: kindArray}
		for _, item := range n.Content {
			iv, err := c.value(item, depth+1)
			if err != nil {
				return value{}, err
			}
			v.items = append(v.items, iv)
		}
		return v, nil
	case yaml.MappingNode:
		return c.mapping(n, depth)
	default:
		return scalar(n)
	}
}

func (c *converter) mapping(n *yaml.Node, depth int) (value, error) {
	v := value{kind: kindObject}
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
			return value{}, fmt.Errorf("line %d: a key must be a plain word", key.Line)
		}
		if seen[key.Value] {
			return value{}, fmt.Errorf("line %d: key %q is given twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		c.size += len(key.Value)
		val, err := c.value(n.Content[i+1], depth+1)
		if err != nil {
			return value{}, err
		}
		v.members = append(v.members, member{key.Value, val})
	}
	return v, c.merge(&v, seen, n, depth)
}

// merge adds the members of the mappings that "<<" names; own members win, and
// of several mappings the first.
func (c *converter) merge(v *value, seen map[string]bool, n *yaml.Node, depth int) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() != "!!merge" {
			continue
		}
		from, err := c.value(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		sources := from.items
		if from.kind != kindArray {
			sources = []value{from}
		}
		for _, src := range sources {
			if src.kind != kindObject {
				return fmt.Errorf("line %d: \"<<\" merges mappings only", n.Content[i].Line)
			}
			for _, m := range src.members {
				if !seen[m.key] {
					seen[m.key] = true
					v.members = append(v.members, m)
				}
			}
		}
	}
	return nil
}

func scalar(n *yaml.Node) (value, error) {
	switch n.ShortTag() {
	case "!!null":
		return value{kind: kindNull, text: "null"}, nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return value{}, fmt.Errorf("line %d: %q is not a boolean", n.Line, n.Value)
		}
		return value{kind: kindBool, text: strconv.FormatBool(b)}, nil
	case "!!int", "!!float":
		return numberFromYAML(n)
	default:
		return stringValue(n.Value), nil
	}
}

func numberFromYAML(n *yaml.Node) (value, error) {
	if json.Valid([]byte(n.Value)) {
		return value{kind: kindNumber, text: n.Value}, nil
	}
	var decoded any
	if err := n.Decode(&decoded); err != nil {
		return value{}, fmt.Errorf("line %d: %q is not a number", n.Line, n.Value)
	}
	switch d := decoded.(type) {
	case int, int64, uint64:
		return value{kind: kindNumber, text: fmt.Sprint(d)}, nil
	case float64:
		if !math.IsInf(d, 0) && !math.IsNaN(d) {
			return value{kind: kindNumber, text: strconv.FormatFloat(d, 'g', -1, 64)}, nil
		}
	}
	return value{}, fmt.Errorf("line %d: JSON has no number %s", n.Line, n.Value)
}

// maxBody is the size above which the daemon would refuse a body anyway.
const maxBody = 8 << 20
