// SPDX-License-Identifier: Apache-2.0

// Command polycube-upf controls a cube of service upf over PFCP, as the user plane function of a mobile core.
package main

import (
	"os"

	"github.com/polycube/polycube/internal/upf"
)

func main() { os.Exit(upf.Main(os.Args[1:], os.Stdout, os.Stderr)) }
