// SPDX-License-Identifier: Apache-2.0

// Command newcube creates the folder of a new cube under cubes/, complete and passing its tests and all house rules,
// and lists it in cubes/all, or that of an external service anywhere. `make new-cube`, `make new-vnf` and `make
// new-service` run it.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
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
	language := flags.String("service", "none", "create an external service instead, with the control plane in go or python")
	dir := flags.String("dir", "", "folder of the service (default examples/services/NAME)")
	prefix := flags.String("prefix", "/usr/local", "where Polycube is installed, for a service")
	transparent := flags.Bool("transparent", false, "create a transparent cube: no ports, attached to a port or a netdev")
	mode := flags.String("vnf", "none", "create a hybrid network function beside the host's stack: "+strings.Join(modes, ", "))
	if err := flags.Parse(args); err != nil {
		return err
	}
	name := flags.Arg(0)
	if flags.NArg() > 1 {
		return fmt.Errorf("expected one name, got %d: NAME=firewall", flags.NArg())
	}
	next := fmt.Sprintf("make && go test ./cubes/%s, then docs/guide/write-a-cube.md", name)
	var files []string
	var err error
	if *language == "none" {
		var of string
		if of, err = kind(*transparent, *mode); err == nil {
			files, err = scaffold(*root, name, of)
		}
	} else {
		s := service{Name: name, Upper: strings.ToUpper(name), Language: *language, Transparent: *transparent, Prefix: *prefix}
		files, err = scaffoldService(*root, *dir, s)
		next = "make, make test and make install there, then docs/guide/plug-in-a-service.md"
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		fmt.Println(f)
	}
	fmt.Println("Next:", next)
	return nil
}
