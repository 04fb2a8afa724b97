// SPDX-License-Identifier: Apache-2.0

// Command polycube-upf drives a cube of service upf by PFCP, as the user plane function of a mobile core.
package main

import (
	"os"

	"github.com/polycube/polycube/internal/upf"
)

func main() { os.Exit(upf.Main(os.Args[1:], os.Stdout, os.Stderr)) }
