// SPDX-License-Identifier: Apache-2.0

package sidecar

// Options of a program: a configuration file has the same ones as the command line.

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// ReadFile sets the options of a file that the command line does not set. unfit are options that make no sense in a file.
func ReadFile(path string, f *pflag.FlagSet, unfit ...string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	var all map[string]values
	if err := yaml.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	given := map[string]bool{}
	f.Visit(func(is *pflag.Flag) { given[is.Name] = true })
	for name, texts := range all {
		if is := f.Lookup(name); is == nil || slices.Contains(unfit, name) {
			return fmt.Errorf("%s: there is no option %s", path, name)
		}
		if given[name] {
			continue
		}
		for _, text := range texts {
			if err := f.Set(name, text); err != nil {
				return fmt.Errorf("%s: %s: %w", path, name, err)
			}
		}
	}
	return nil
}

// values are those of an option: one, or a list.
type values []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *values) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*v = values{n.Value}
		return nil
	}
	return n.Decode((*[]string)(v))
}
