// SPDX-License-Identifier: Apache-2.0

// Command reference writes docs/reference/helpers.md from the headers, with the costs that were
// measured last. It is what `make reference` runs, from the top of the repository.
package main

import (
	"fmt"
	"os"

	"github.com/polycube/polycube/test/lint/reference"
)

func main() {
	if err := reference.Write(".", nil); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}
