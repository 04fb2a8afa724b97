// SPDX-License-Identifier: Apache-2.0

// Operations as data, and how a user would write them.

package model

import (
	"fmt"
	"strings"
)

// Verb is a kind of operation.
type Verb string

// The operations. The comment describes an operation's Cube, At, To and Value.
const (
	AddCube    Verb = "add cube"     // Cube of service To and type Value
	DelCube    Verb = "del cube"     // Cube
	AddPort    Verb = "add port"     // At cube:port
	DelPort    Verb = "del port"     // At cube:port
	Connect    Verb = "connect"      // At cube:port and To, a port or a network device
	Disconnect Verb = "disconnect"   // the same
	SetPeer    Verb = "set peer"     // At cube:port, To the peer, "" for none
	Attach     Verb = "attach"       // Cube to To, at position Value
	Detach     Verb = "detach"       // Cube from To
	Set        Verb = "set"          // leaf To of Cube to Value
	SetAction  Verb = "set action"   // At cube:port of a simpleforwarder to Value, and To another port's name
	DelAction  Verb = "del action"   // At cube:port
	AddEntry   Verb = "add entry"    // address Value is behind At, cube:port
	DelEntry   Verb = "del entry"    // address Value of Cube
	Flush      Verb = "flush"        // Cube, a simplebridge
	DelNetdev  Verb = "netdev del"   // To
	AddNetdev  Verb = "netdev add"   // To
	NetdevDown Verb = "netdev down"  // To
	NetdevUp   Verb = "netdev up"    // To
	Kill       Verb = "kill"         // the daemon, by SIGKILL
	Stop       Verb = "stop"         // the daemon, by SIGTERM
	Start      Verb = "start daemon" // the daemon
)

// Op is one operation.
type Op struct {
	Verb                Verb
	Cube, At, To, Value string
}

// OnNetdev reports operations on the devices of the machine, which need no daemon.
func (o Op) OnNetdev() bool {
	return o.Verb == DelNetdev || o.Verb == AddNetdev || o.Verb == NetdevDown || o.Verb == NetdevUp
}

// OnDaemon reports operations on the daemon's process.
func (o Op) OnDaemon() bool { return o.Verb == Kill || o.Verb == Stop || o.Verb == Start }

// Request is the operation as a request; service is the service of the cube, with which paths begin.
func (o Op) Request(service string) (method, path, body string) {
	name, port := place(o.At)
	ports := fmt.Sprintf("/%s/%s/ports/%s", service, name, port)
	entry := fmt.Sprintf("/%s/%s/fdb/entry/%s", service, name, o.Value)
	action := fmt.Sprintf("/%s/%s/actions/%s", service, name, port)
	switch o.Verb {
	case AddCube:
		return "POST", "/" + o.To + "/" + o.Cube, fmt.Sprintf(`{"type":%q}`, o.Value)
	case DelCube:
		return "DELETE", "/" + service + "/" + o.Cube, ""
	case AddPort:
		return "POST", ports, ""
	case DelPort:
		return "DELETE", ports, ""
	case Connect, Disconnect:
		return "POST", "/" + string(o.Verb), fmt.Sprintf(`{"peer1":%q,"peer2":%q}`, o.At, o.To)
	case SetPeer:
		return "PATCH", ports + "/peer", fmt.Sprintf("%q", o.To)
	case Attach:
		return "POST", "/attach", fmt.Sprintf(`{"cube":%q,"port":%q,"position":%q}`, o.Cube, o.To, o.Value)
	case Detach:
		return "POST", "/detach", fmt.Sprintf(`{"cube":%q,"port":%q}`, o.Cube, o.To)
	case Set:
		value := o.Value
		if o.To != agingTime {
			value = fmt.Sprintf("%q", value)
		}
		return "PATCH", "/" + service + "/" + o.Cube + "/" + o.To, value
	case SetAction:
		if o.To == "" {
			return "PUT", action, fmt.Sprintf(`{"action":%q}`, o.Value)
		}
		return "PUT", action, fmt.Sprintf(`{"action":%q,"outport":%q}`, o.Value, o.To)
	case DelAction:
		return "DELETE", action, ""
	case AddEntry:
		return "POST", entry, fmt.Sprintf(`{"port":%q}`, port)
	case DelEntry:
		return "DELETE", fmt.Sprintf("/%s/%s/fdb/entry/%s", service, o.Cube, o.Value), ""
	case Flush:
		return "POST", "/" + service + "/" + o.Cube + "/fdb/flush", ""
	case DelNetdev, AddNetdev, NetdevDown, NetdevUp, Kill, Stop, Start:
	}
	panic("no request: " + string(o.Verb))
}

// agingTime is the leaf of a simplebridge that is a number.
const agingTime = "fdb/aging-time"

// String is the operation as a command.
func (o Op) String() string {
	name, port := place(o.At)
	cli := func(format string, args ...any) string {
		return "polycubectl " + strings.TrimSpace(fmt.Sprintf(format, args...))
	}
	switch o.Verb {
	case AddCube:
		return cli("%s add %s type=%s", o.To, o.Cube, o.Value)
	case DelCube:
		return cli("%s del", o.Cube)
	case AddPort:
		return cli("%s ports add %s", name, port)
	case DelPort:
		return cli("%s ports del %s", name, port)
	case Connect, Disconnect:
		return cli("%s %s %s", o.Verb, o.At, o.To)
	case SetPeer:
		return cli("%s ports %s set peer=%s", name, port, o.To)
	case Attach:
		return cli("attach %s %s position=%s", o.Cube, o.To, o.Value)
	case Detach:
		return cli("detach %s %s", o.Cube, o.To)
	case Set:
		if o.To == agingTime {
			return cli("%s fdb set aging-time=%s", o.Cube, o.Value)
		}
		return cli("%s set %s=%s", o.Cube, o.To, o.Value)
	case SetAction:
		if o.To != "" {
			return cli("%s actions add %s action=%s outport=%s # or set", name, port, o.Value, o.To)
		}
		return cli("%s actions add %s action=%s # or set", name, port, o.Value)
	case DelAction:
		return cli("%s actions del %s", name, port)
	case AddEntry:
		return cli("%s fdb entry add %s port=%s", name, o.Value, port)
	case DelEntry:
		return cli("%s fdb entry del %s", o.Cube, o.Value)
	case Flush:
		return cli("%s fdb flush", o.Cube)
	case DelNetdev:
		return "ip link del " + o.To
	case AddNetdev:
		return "ip link add " + o.To + " type veth ..."
	case NetdevDown:
		return "ip link set " + o.To + " down"
	case NetdevUp:
		return "ip link set " + o.To + " up"
	case Kill:
		return "kill -9 polycubed"
	case Stop:
		return "kill -TERM polycubed"
	default:
		return "polycubed &"
	}
}
