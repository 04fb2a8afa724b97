// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/internal/datapath/graph"
)

// GoneError is the error of a change that failed because netdevs of its graph are gone: the kernel returns different
// errors in different places.
type GoneError struct {
	// Netdevs are their names, with the indexes that are gone.
	Netdevs map[string]int
	Err     error
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("netdev %s was deleted: %v", strings.Join(slices.Sorted(maps.Keys(e.Netdevs)), ", "), e.Err)
}

func (e *GoneError) Unwrap() error { return e.Err }

// Gone converts an error to a GoneError if netdevs of the graph no longer exist. The netdevs are those of the calling
// thread's namespace, where the plane attaches.
func Gone(g *graph.Graph, err error) error {
	if err == nil {
		return nil
	}
	missing := map[string]int{}
	look := func(name string, index int) {
		var no netlink.LinkNotFoundError
		if index == 0 {
			return
		}
		if _, err := netlink.LinkByIndex(index); errors.As(err, &no) {
			missing[name] = index
		}
	}
	for name, n := range g.Netdevs {
		look(name, n.Index)
	}
	if g.Host != nil {
		for _, n := range g.Host.Netdevs {
			look(n.Name, n.Index)
		}
	}
	if len(missing) == 0 {
		return err
	}
	return &GoneError{Netdevs: missing, Err: err}
}
