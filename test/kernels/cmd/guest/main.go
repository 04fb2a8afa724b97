// SPDX-License-Identifier: Apache-2.0

// Command guest is /init of the machines of `make test-kernels`.
package main

import (
	"fmt"
	"os"

	"github.com/polycube/polycube/test/kernels/guest"
)

func main() {
	err := job(os.Args[1:])
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

// job runs the job in the arguments. For the first process they follow -- on the kernel's command line.
func job(args []string) error {
	switch {
	case len(args) == 0:
		return guest.Init()
	case args[0] == "boot":
		return guest.Boot()
	case args[0] == "run":
		return guest.Run()
	case args[0] == "store" && len(args) == 2:
		return guest.Store(args[1])
	}
	return fmt.Errorf("unknown job %q", args)
}
