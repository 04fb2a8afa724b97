// SPDX-License-Identifier: Apache-2.0

// Command guest is /init of the machines of `make test-kernels`.
package main

import (
	"fmt"
	"os"

	"github.com/polycube/polycube/test/kernels/guest"
)

func main() {
	job := guest.Init
	if len(os.Args) > 1 {
		job = map[string]func() error{"boot": guest.Boot, "run": guest.Run}[os.Args[1]]
	}
	var err error
	if job == nil {
		err = fmt.Errorf("unknown job %q", os.Args[1:])
	} else {
		err = job()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
	}
	if os.Getpid() == 1 {
		guest.Off()
	}
	if err != nil {
		os.Exit(1)
	}
}
