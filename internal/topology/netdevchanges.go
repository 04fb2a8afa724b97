// SPDX-License-Identifier: Apache-2.0

package topology

// The transactions by which the topology follows the netdevs (package follow).

import (
	"context"
	"errors"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
)

// netdevChanges implements [follow.Changes].
type netdevChanges struct {
	*parts
	writer     *writer
	namespaces *namespaces
}

// SetLinks implements [follow.Changes].
func (c *netdevChanges) SetLinks(ctx context.Context, links map[string]world.Link) error {
	return c.writer.transactRestoring(ctx, func(t *editing) error {
		t.next.SetLinks(links)
		return nil
	})
}

// SetUnused implements [follow.Changes].
func (c *netdevChanges) SetUnused(links map[string]world.Link) bool { return c.writer.setUnused(links) }

// NamespaceEvent implements [follow.Changes].
func (c *netdevChanges) NamespaceEvent(e netdev.Event) bool { return c.namespaces.event(e) }

// FollowNetdev implements [follow.Changes]. If the cube refuses, the port stays as it is, and follows the next change.
func (c *netdevChanges) FollowNetdev(name string, at world.Place) {
	for _, asIs := range []bool{false, true} {
		err := c.writer.transact(context.Background(), func(t *editing) error {
			rec := t.own(at.Cube)
			if rec == nil || rec.Ports[at.Port] == nil || rec.Ports[at.Port].Peer != name {
				return errUnchanged
			}
			return t.noticeNetdev(rec, rec.Ports[at.Port], asIs)
		})
		if err == nil || errors.Is(err, errUnchanged) || errors.Is(err, service.ErrClosed) {
			return
		}
		c.log.Warn("a port does not follow its netdev", "port", at.String(), "netdev", name, "error", err)
	}
}
