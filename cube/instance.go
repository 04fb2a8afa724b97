// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"context"
	"encoding/json"
)

// Instance is the control plane of one cube: the functions that the framework calls, one at a time. Only Prepare is
// required; a function that is nil is never called, and its feature is not supported.
type Instance struct {
	// Prepare checks a change and returns the plan that carries it out. It changes neither a map nor the instance,
	// because the plan may never be carried out. An error refuses the change.
	Prepare func(ctx context.Context, c Change) (Plan, error)
	// Dependents returns the edits that follow from a change from old to after, for configuration that exists only as
	// long as other configuration does, such as routes with the network of their next hop. The edits are part of the
	// same transaction; Prepare sees them like edits of the request. They may delete again what the request itself
	// deletes. It changes nothing.
	Dependents func(ctx context.Context, old, after json.RawMessage) ([]Edit, error)

	// State returns a value that marshals to a JSON object shaped like the cube's tree; the framework merges it
	// with the configuration (lists by their keys). path is the requested node, so that a cube need not collect the
	// rest; nil requests everything. A large answer may be a tree.State.
	State func(ctx context.Context, path []string) (any, error)
	// Page reads a part of a list of state that the model marks `paged`. Such a list is only read through Page;
	// State is called for single entries, and may omit the list otherwise. A page should not examine more than some
	// ten thousand entries: with a filter that few match, it may be short, or empty, and Next says where to
	// continue. The error for an invalid After wraps ErrInvalid, and ErrStale if the list has changed so that After
	// has no meaning any more.
	Page func(ctx context.Context, path []string, q PageQuery) (Page, error)
	// DeleteState deletes the entry at path of a state list, such as learned addresses, immediately and permanently.
	// An error wraps ErrNotFound if there is no such entry, and ErrInvalid, ErrInUse or ErrUnsupported if it cannot be
	// deleted, because it is derived from other configuration: then it stays when the whole list is deleted. Any other
	// error undoes the deletion of the list.
	//
	// When a whole list is deleted, the framework calls it for each entry that State shows and that is not
	// configured, after the configured ones are deleted and the plan is committed. For a list of state that the
	// model marks `deletable`, path is first that of the list, without keys: delete all its entries, or return
	// ErrNotFound to be called one by one.
	DeleteState func(ctx context.Context, path []string) error
	// Action runs an action of the model. path is the action's path, keys included.
	Action func(ctx context.Context, path []string, input json.RawMessage) (ActionResult, error)

	// PacketIn receives the packets that the fast path sent to the slow path. The packet's Data is valid only during
	// the call.
	PacketIn func(*PacketIn)
	// Notify receives the messages that the cube's programs send with pcn_notify. data is valid only during the call.
	Notify func(kind uint32, data []byte)

	// PortChanged is called when a port got or lost its peer, after the change has taken effect.
	PortChanged func(port string, up bool)
	// LinkChanged is called when the link of a port goes up or down, after PortChanged. A link is up while the port
	// has its peer and, if the peer is a netdev, the netdev has carrier. A link that was down briefly is reported
	// twice.
	LinkChanged func(port string, works bool)
	// PeerChanged reports the peers of the ports of a standard cube, after a change has taken effect: once for each
	// port that has a peer when the cube is created, and then when the peer, or its netdev, has changed. Several
	// changes may be reported in one call. If links change too, LinkChanged comes before it for a link that went
	// down, and after it for one that is up.
	PeerChanged func(port string, peer Peer)
	// OutputChanged reports where the outputs of a transparent cube lead (list `outputs`), as PeerChanged reports the
	// peers of ports. An output that is removed is not reported.
	OutputChanged func(number uint8, peer Peer)
	// ParentChanged is called when a transparent cube was attached or detached, and when a parameter of its parent
	// changed: the configuration of the port, its peer, or the netdev. The calls come in the order of the changes,
	// each with all information available at the time, and not before the change has taken effect; several changes
	// may be reported in one call.
	ParentChanged func(Parent)
	// RoutesChanged receives the routes that programs in the cube's namespace add: the changes since the last call,
	// each route once, many in one call. complete says that the call contains all routes: routes that were reported
	// before and are not in it are gone. The first call is complete. Routes are state, not configuration: the
	// namespace keeps them while the daemon is down.
	RoutesChanged func(changes []RouteChange, complete bool)

	// Interfaces returns, for a configuration, the interfaces of a shadow cube's ports in its namespace, by port.
	// The framework synchronizes both, whichever side changes. A port that is not in the result is not
	// synchronized. It must not access maps or send packets.
	Interfaces func(conf json.RawMessage) (map[string]Interface, error)
	// NamespaceChanged returns the edits by which a port follows its interface, which a program in the namespace
	// has changed from was, the result of Interfaces, to is; none, if the cube does not follow. They are validated,
	// applied and persisted like those of a request.
	NamespaceChanged func(port string, was, is Interface) ([]Edit, error)
	// Alignment returns, for a configuration, the addresses that ports share with their netdevs, by port. The
	// framework synchronizes both, whichever side changes: a port with addresses gives them to its netdev, a port
	// without takes those of the netdev; from then on changes go both ways. Addresses given to the netdev are
	// removed with the peer. A port that is not in the result does not share addresses.
	Alignment func(conf json.RawMessage) (map[string]Alignment, error)
	// NetdevChanged returns the edits by which a port follows its netdev, like NamespaceChanged for the namespace.
	NetdevChanged func(port string, was, is Interface) ([]Edit, error)

	// Deleted is called before Close when the cube is deleted, and no packet runs its programs any more. It is for what the
	// cube has given to other cubes, which outlives the daemon.
	Deleted func()
	// Close is called when the cube is deleted or the daemon stops; in the latter case maps stay pinned.
	Close func()
}
