// SPDX-License-Identifier: Apache-2.0

package iptables

// Jumps from chain to chain.

import (
	"fmt"

	"github.com/polycube/polycube/cube"
)

// checkJumps refuses jumps to chains that do not exist, loops, and chains that are nested too deeply.
func (n *change) checkJumps() error {
	targets := map[key][]*rule{}
	for k, c := range n.chains {
		for i, r := range c.rules {
			if r.forms.jump == "" {
				continue
			}
			if n.chains[k.sibling(r.forms.jump)] == nil {
				return fmt.Errorf("%s: rule %d: there is no chain %s: %w", k, i, r.forms.jump, cube.ErrInvalid)
			}
			if k.sibling(r.forms.jump).builtIn() >= 0 {
				return fmt.Errorf("%s: rule %d: a rule cannot jump to %s: %w", k, i, r.forms.jump, cube.ErrInvalid)
			}
			targets[k] = append(targets[k], r)
		}
	}
	depth := map[key]int{}
	for k := range targets {
		if _, err := nested(k, targets, depth); err != nil {
			return err
		}
	}
	return nil
}

// maxDepth is DEPTH in C: how many chains may wait for others to return.
const maxDepth = 16

// nested returns how many chains are below one. In depth, -1 is a chain that is being looked at.
func nested(k key, targets map[key][]*rule, depth map[key]int) (int, error) {
	if d, ok := depth[k]; ok {
		if d < 0 {
			return 0, fmt.Errorf("%s: its rules jump to itself, if by other chains: %w", k, cube.ErrInvalid)
		}
		return d, nil
	}
	depth[k] = -1
	most := 0
	for _, r := range targets[k] {
		d, err := nested(k.sibling(r.forms.jump), targets, depth)
		if err != nil {
			return 0, err
		}
		most = max(most, d+1)
	}
	if most > maxDepth {
		return 0, fmt.Errorf("%s: chains that jump to others are nested by more than %d: %w", k, maxDepth, cube.ErrInvalid)
	}
	depth[k] = most
	return most, nil
}
