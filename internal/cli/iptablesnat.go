// SPDX-License-Identifier: Apache-2.0

package cli

// The table nat of pcn-iptables: that of a cube nat at the host's stack, which is made for the first rule or chain.

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
)

// natCube is the cube nat that belongs to the cube iptables.
type natCube struct {
	*session
	name string
}

// defaultNATCube is the cube with the table nat.
const defaultNATCube = "pcn-nat"

func natCubeOf(s *session) natCube {
	return natCube{s, cmp.Or(s.getenv("PCN_NAT_CUBE"), defaultNATCube)}
}

// created has the cube carry out a command, and creates it before that if it does not exist: in front of all others at the host,
// since these see packets as the host does. If that command fails, the cube is deleted again.
func (n natCube) created(program string, args []string, input string) (is iptablesAnswer, err error) {
	is, err = runIptables(n.session, "nat", n.name, program, args, input)
	if !errors.Is(err, errNoCube) {
		return is, err
	}
	try := n.try
	_, err = iptablesSteps(n.session, []string{"nat", "add", n.name}, []string{"attach", n.name, "host", "position=first"})
	n.try = try
	is, bad := runIptables(n.session, "nat", n.name, program, args, input)
	switch {
	case errors.Is(bad, errNoCube):
		return is, cmp.Or(err, bad)
	case err == nil && (bad != nil || is.Error != ""): // else another program has created it at the same time
		bad = cmp.Or(bad, n.remove())
	}
	return is, bad
}

// remove deletes the cube, if it exists.
func (n natCube) remove() error {
	a, err := n.demand(request{method: http.MethodDelete, path: []string{"nat", n.name}})
	if a.status == http.StatusNotFound {
		return nil
	}
	return err
}

// restore has the cube, and that of the other tables, restore what these have found to be right. The last answer is that of the
// first that fails.
func (n natCube) restore(others, program string, args []string, input string) (is iptablesAnswer, err error) {
	if is, err = n.created(program, append(slices.Clone(args), "--test"), input); err != nil || is.Error != "" {
		return is, err
	}
	if is, err = runIptables(n.session, "iptables", others, program, args, input); err != nil || is.Error != "" {
		return is, err
	}
	return runIptables(n.session, "nat", n.name, program, args, input)
}

// run carries out a command about the table, for which the cube iptables has given the answer of a table without rules.
func (n natCube) run(empty iptablesAnswer, program string, args []string) (iptablesAnswer, error) {
	if empty.Changes {
		return n.created(program, args, "")
	}
	is, err := runIptables(n.session, "nat", n.name, program, args, "")
	if errors.Is(err, errNoCube) {
		return empty, nil
	}
	return is, err
}

// add adds the table to the output of iptables-save, if the cube exists.
func (n natCube) add(is *iptablesAnswer, program string, args []string) error {
	table, err := runIptables(n.session, "nat", n.name, program, append(slices.Clone(args), "-t", "nat"), "")
	if errors.Is(err, errNoCube) {
		return nil
	}
	if err != nil || table.Error != "" {
		return cmp.Or(err, errors.New(table.Error))
	}
	is.Output += table.Output
	return nil
}
