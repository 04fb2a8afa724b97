// SPDX-License-Identifier: Apache-2.0

// Command weigh prints the cost of each helper for programs of cubes for the verifier of this kernel, and its stack
// usage, as JSON by helper and hook. It runs as root and needs nothing else.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/polycube/polycube/test/lint/reference"
	"github.com/polycube/polycube/test/perf"
)

func main() {
	root := flag.String("write", "", "directory of a repository: write the weights into its reference too")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "weigh:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root: it loads programs")
	}
	weights, err := perf.WeighHelpers()
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(weights); err != nil {
		return fmt.Errorf("printing the weights: %w", err)
	}
	if root == "" {
		return nil
	}
	return reference.Write(root, reference.Figures{Weights: perf.Weights(weights)})
}
