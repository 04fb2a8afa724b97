// SPDX-License-Identifier: Apache-2.0

// Command polycube-ndpi classifies the flows of a cube of service edpi with nDPI.
package main

import (
	"os"

	"github.com/polycube/polycube/internal/inspect"
)

func main() { os.Exit(inspect.Main(os.Args[1:], os.Stdout, os.Stderr)) }
