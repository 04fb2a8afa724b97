// SPDX-License-Identifier: Apache-2.0

// Command reference writes docs/reference: the helpers from the headers, with the last measured costs, and the services
// from their models. `make reference` runs it, from the top of the repository.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/polycube/polycube/test/lint/reference"
)

func main() {
	if err := errors.Join(reference.Write(".", reference.Figures{}), reference.WriteModels(".")); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}
