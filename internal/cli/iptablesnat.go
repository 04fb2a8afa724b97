// SPDX-License-Identifier: Apache-2.0

package cli

// The table nat of pcn-iptables: that of a cube nat at the host's stack, which is made for the first rule or chain.

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/polycube/polycube/internal/cli/output"
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
// since these see packets as the host does. If that fails, the cube is deleted again.
func (n natCube) created(firewall, program string, args []string, input string) (is iptablesAnswer, err error) {
	is, err = runIptables(n.session, "nat", n.name, program, args, input)
	if !errors.Is(err, errNoCube) {
		return is, err
	}
	if at, err := placeOf(n.session, "iptables", firewall); err == nil && at.Type != typeTC {
		return is, fmt.Errorf("the table nat needs a firewall of type %s, and %s is of type %s: make one with pcn-iptables-init", typeTC, firewall, output.Clean(at.Type))
	}
	try := n.try
	_, added := iptablesSteps(n.session, []string{"nat", "add", n.name}) // it fails, too, if another program is faster
	if added == nil {
		if _, err := iptablesSteps(n.session, []string{"attach", n.name, "host", "position=first"}); err != nil {
			return is, errors.Join(err, n.remove())
		}
	}
	n.try = try
	is, err = runIptables(n.session, "nat", n.name, program, args, input)
	switch {
	case errors.Is(err, errNoCube):
		return is, cmp.Or(added, err)
	case added == nil && (err != nil || is.Error != ""):
		err = cmp.Or(err, n.remove())
	}
	return is, err
}

// remove deletes the cube, if it exists.
func (n natCube) remove() error {
	if _, err := placeOf(n.session, "nat", n.name); errors.Is(err, errNoCube) {
		return nil
	}
	_, err := n.demand(request{method: http.MethodDelete, path: []string{"nat", n.name}})
	return err
}

// restore has the cube, and that of the other tables, restore what these have found to be right. The last answer is that of the
// first that fails.
func (n natCube) restore(others, program string, args []string, input string) (is iptablesAnswer, err error) {
	if is, err = n.created(others, program, append(slices.Clone(args), "--test"), input); err != nil || is.Error != "" {
		return is, err
	}
	if is, err = runIptables(n.session, "iptables", others, program, args, input); err != nil || is.Error != "" {
		return is, err
	}
	return runIptables(n.session, "nat", n.name, program, args, input)
}

// run carries out a command about the table, for which the cube iptables has given the answer of a table without rules.
func (n natCube) run(empty iptablesAnswer, firewall, program string, args []string) (iptablesAnswer, error) {
	if empty.Changes {
		return n.created(firewall, program, args, "")
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
