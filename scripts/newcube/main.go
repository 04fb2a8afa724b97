// SPDX-License-Identifier: Apache-2.0

// Command newcube creates the folder of a new cube under cubes/, complete and passing its tests and all house rules,
// and lists it in cubes/all. `make new-cube` runs it.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "new-cube:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("newcube", flag.ContinueOnError)
	root := flags.String("root", ".", "directory of the repository")
	transparent := flags.Bool("transparent", false, "create a transparent cube: no ports, attached to a port or a netdev")
	if err := flags.Parse(args); err != nil {
		return err
	}
	name := flags.Arg(0)
	if flags.NArg() > 1 {
		return fmt.Errorf("expected one name, got %d: NAME=firewall", flags.NArg())
	}
	files, err := scaffold(*root, name, *transparent)
	if err != nil {
		return err
	}
	for _, f := range files {
		fmt.Println(f)
	}
	fmt.Printf("Next: make && go test ./cubes/%s, then docs/guide/write-a-cube.md\n", name)
	return nil
}
