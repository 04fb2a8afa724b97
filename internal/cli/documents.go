// SPDX-License-Identifier: Apache-2.0

// Files of cubes. Several files, and several documents in one, form one configuration; the origin of each part is
// kept, so that errors of the daemon can name file and line.

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/internal/suggest"
)

// maxDocument is the size above which the daemon refuses a document.
const maxDocument = 32 << 20

// documents are the cubes and netdevs of files, with their origins.
type documents struct {
	cubes, netdevs     []output.Value
	cubesAt, netdevsAt []string
	some               bool // the files were not empty
}

// json is the documents as one.
func (d *documents) json() []byte {
	members := []output.Member{{Key: "cubes", Val: output.Value{Kind: output.KindArray, Items: d.cubes}}}
	if len(d.netdevs) > 0 {
		members = append(members, output.Member{Key: "netdevs", Val: output.Value{Kind: output.KindArray, Items: d.netdevs}})
	}
	return output.ObjectValue(members...).AppendJSON(nil)
}

// at is the origin of what the daemon calls "cubes[2] br1", "" if unknown.
func (d *documents) at(part string) string {
	for name, places := range map[string][]string{"cubes": d.cubesAt, "netdevs": d.netdevsAt} {
		var i int
		if n, _ := fmt.Sscanf(part, name+"[%d]", &i); n == 1 && i >= 0 && i < len(places) {
			return places[i]
		}
	}
	return ""
}

// readFiles reads files; "-" is standard input.
func (s *session) readFiles(names []string) (*documents, error) {
	d := &documents{}
	left := int64(maxDocument)
	for _, name := range names {
		data, err := s.readFile(name, left)
		if err != nil {
			return nil, err
		}
		left -= int64(len(data))
		if name == "-" {
			name = "standard input"
		}
		if err := d.add(name, data); err != nil {
			return nil, &usageError{message: name + ": " + err.Error()}
		}
	}
	if !d.some { // an empty file after a failed redirection must not delete everything
		return nil, usagef("the files are empty; to apply an empty configuration, write \"cubes: []\"")
	}
	return d, nil
}

func (s *session) readFile(name string, limit int64) ([]byte, error) {
	file := s.stdin
	if name != "-" {
		var err error
		if file, err = os.Open(name); err != nil {
			dir, _ := filepath.Split(name)
			return nil, usagef("%v%s", err, suggest.Question(suggest.Near(name, files("", dir))))
		}
		defer file.Close()
	}
	if file == nil {
		return nil, usagef("-f -: no standard input")
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, usagef("%v", err)
	}
	if int64(len(data)) > limit {
		return nil, usagef("the files are larger than %d MiB", maxDocument>>20)
	}
	return data, nil
}

// add adds the documents of a file.
func (d *documents) add(name string, data []byte) error {
	if json.Valid(data) { // YAML refuses the tabs that JSON files may be indented with
		v, err := output.DecodeJSON(data)
		if err != nil {
			return err
		}
		return d.take(v, func(string, int) string { return name })
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	c := output.Converter{Limit: maxDocument}
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
		}
		v, err := c.Value(&doc, 0)
		if err != nil {
			return err
		}
		if v.Kind == output.KindNull {
			continue // nothing between two separators
		}
		if err := d.take(v, func(list string, i int) string { return fmt.Sprintf("%s:%d", name, lineOf(&doc, list, i)) }); err != nil {
			return err
		}
	}
}

// lineOf finds the line of a list element, or of the document if there is none.
func lineOf(doc *yaml.Node, list string, i int) int {
	top := doc
	for top.Kind == yaml.DocumentNode || top.Kind == yaml.AliasNode {
		if top.Kind == yaml.AliasNode {
			top = top.Alias
		} else {
			top = top.Content[0]
		}
	}
	if top.Kind == yaml.MappingNode {
		for k := 0; k+1 < len(top.Content); k += 2 {
			if top.Content[k].Value == list && top.Content[k+1].Kind == yaml.SequenceNode {
				top = top.Content[k+1]
				break
			}
		}
	}
	if top.Kind == yaml.SequenceNode && i < len(top.Content) {
		return top.Content[i].Line
	}
	return top.Line
}

// take adds one document: a list of cubes, an object with cubes and netdevs, or one cube.
func (d *documents) take(v output.Value, at func(list string, i int) string) error {
	if v.Kind == output.KindArray {
		v = output.ObjectValue(output.Member{Key: "cubes", Val: v})
	}
	if _, alone := v.Get("service-name"); alone && v.Kind == output.KindObject {
		v = output.ObjectValue(output.Member{Key: "cubes", Val: output.Value{Kind: output.KindArray, Items: []output.Value{v}}})
	}
	if v.Kind != output.KindObject {
		return errors.New("expected a list of cubes, or an object with cubes and netdevs")
	}
	for _, m := range v.Members {
		d.some = true
		list, places := &d.cubes, &d.cubesAt
		switch m.Key {
		case "cubes":
		case "netdevs":
			list, places = &d.netdevs, &d.netdevsAt
		default:
			return fmt.Errorf("unknown key %q, the keys are cubes and netdevs%s", m.Key, suggest.Question(suggest.Near(m.Key, []string{"cubes", "netdevs"})))
		}
		if m.Val.Kind != output.KindArray && m.Val.Kind != output.KindNull {
			return fmt.Errorf("%s: expected a list", m.Key)
		}
		for i, item := range m.Val.Items {
			*list = append(*list, item)
			*places = append(*places, at(m.Key, i))
		}
	}
	return nil
}

// complaints are the errors of a response, with their origins.
func (d *documents) complaints(a answer) string {
	v, err := output.DecodeJSON(a.body)
	if d == nil || err != nil {
		return sentences(a)
	}
	envelope, _ := v.Get("ietf-restconf:errors")
	list, _ := envelope.Get("error")
	var lines []string
	for _, e := range list.Items {
		line := output.Clean(errorSentence(e))
		if at := d.at(e.TextOf("error-info")); at != "" {
			line = output.Clean(at) + ": " + line
		}
		lines = append(append(lines, line), details(e)...)
	}
	if len(lines) == 0 {
		return sentences(a)
	}
	return strings.Join(lines, "\n")
}
