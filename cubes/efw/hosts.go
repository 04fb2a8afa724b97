// SPDX-License-Identifier: Apache-2.0

package efw

// Reads what package offload needs to know about the host: its rules, from the output of the host's programs, and its settings.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/offload"
)

// programs are those that print tables, by the position of the family.
var programs = [len(families)]struct{ legacy, compat string }{
	{"iptables-legacy-save", "iptables-nft-save"}, {"ip6tables-legacy-save", "ip6tables-nft-save"},
}

// hosts is the state of the host, by family.
type hosts = [len(families)]*offload.Host

// readHosts reads the host for both families.
func (e *efw) readHosts(ctx context.Context, parent cube.Parent, outputs []cube.Output) (out hosts, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = e.visit(func() error {
		out, err = readHosts(ctx, parent, e.env.Type(), outputs)
		return err
	})
	return out, err
}

// readHosts does so in the namespace of the netdevs.
func readHosts(ctx context.Context, parent cube.Parent, typ cube.Type, outputs []cube.Output) (out hosts, err error) {
	common := offload.Host{Netdev: parent.Netdev, AtXDP: typ.Hook() == cube.XDP, Outputs: len(outputs) > 0, Connections: connections(), Lookup: lookup(),
		Accounting: setting(netfilter, "", accounting) != 0, UDPTimeout: time.Duration(setting(netfilter, "", udpTimeout)) * time.Second}
	if common.UDPTimeout > maxTimeout {
		common.UDPTimeout = 0
	}
	if err := readNetdevs(&common, parent, outputs); err != nil {
		return out, err
	}
	if common.Policies, err = policies(); err != nil {
		return out, err
	}
	listed, err := nftTables()
	if err != nil {
		return out, err
	}
	var started [len(families)]func() (legacy, compat []offload.Table, err error)
	for f := range families { // side by side, in this namespace
		started[f] = startFamily(ctx, f, listed)
	}
	for f, family := range families {
		h := common
		h.Family = family
		readSettings(&h)
		if h.Legacy, h.Compat, err = started[f](); err != nil {
			h.Unread = err.Error() // the host alone judges its packets then
		}
		out[f] = &h
	}
	ours := func(t nftTable) bool {
		for f, name := range []string{"ip", "ip6"} {
			if t.family == name && hasTable(out[f].Compat, t.name) {
				return true
			}
		}
		return false
	}
	native, err := readNft(ctx, slices.DeleteFunc(slices.Clone(listed), ours), len(listed))
	for f := range out {
		if err == nil {
			out[f].Others, err = offload.ReadHooked(families[f], native, func(family, table string) bool { return ours(nftTable{family, table}) })
		}
		if err != nil {
			out[f].Unread = err.Error()
		}
	}
	return out, nil
}

func hasTable(tables []offload.Table, name string) bool {
	for _, t := range tables {
		if t.Name == name {
			return true
		}
	}
	return false
}

// readSettings reads the settings of a family.
func readSettings(h *offload.Host) {
	if h.Family == language.IPv4 {
		h.Forwards = setting("ipv4/conf", h.Netdev, "forwarding") != 0
		h.ReversePath = max(setting("ipv4/conf", h.Netdev, "rp_filter"), setting("ipv4/conf", "all", "rp_filter"))
	} else {
		h.Forwards = setting("ipv6/conf", "all", "forwarding") != 0 || setting("ipv6/conf", h.Netdev, "force_forwarding") != 0
	}
}

// startFamily begins to read the tables of iptables of a family, as far as there are any. The function that it returns waits for them.
func startFamily(ctx context.Context, f int, listed []nftTable) (wait func() (legacy, compat []offload.Table, err error)) {
	none := func() ([]offload.Table, error) { return nil, nil }
	waitLegacy, waitCompat := none, none
	if len(legacyFamilies[f].tables()) > 0 {
		waitLegacy = startTables(ctx, families[f], programs[f].legacy)
	}
	if slices.ContainsFunc(listed, func(t nftTable) bool { return t.mayBeOf(f) }) {
		waitCompat = startTables(ctx, families[f], programs[f].compat)
	}
	return func() (legacy, compat []offload.Table, err error) {
		legacy, errLegacy := waitLegacy()
		compat, errCompat := waitCompat()
		if errors.Is(errLegacy, errMissing) {
			errLegacy = fmt.Errorf("the host has iptables-legacy tables, but %w", errLegacy)
		}
		if errors.Is(errCompat, errMissing) {
			errCompat = nil // they are read as those of nft
		}
		return legacy, compat, errors.Join(errLegacy, errCompat)
	}
}

// startTables begins to read the tables that a program prints. The function that it returns waits for them.
func startTables(ctx context.Context, family language.Family, program string) func() ([]offload.Table, error) {
	wait := start(ctx, program, "-c")
	return func() ([]offload.Table, error) {
		text, err := wait()
		if err != nil {
			return nil, err
		}
		tables, err := offload.Read(family, bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("parse the output of %s: %w", program, err)
		}
		return tables, nil
	}
}

// setting reads a number from /proc/sys/net; 0 if there is none.
func setting(folder, netdev, name string) int {
	if strings.ContainsAny(netdev, "/") || netdev == ".." || netdev == "." {
		return 0
	}
	text, err := os.ReadFile(filepath.Join("/proc/sys/net", folder, netdev, name))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// The settings of connection tracking.
const (
	netfilter  = "netfilter"
	accounting = "nf_conntrack_acct"
	udpTimeout = "nf_conntrack_udp_timeout_stream"
	// maxTimeout is the longest one that the kernel lets programs set: 2³¹ ms.
	maxTimeout = math.MaxInt32 * time.Millisecond
)

// connections returns the number of connections that the kernel tracks.
func connections() int { return setting(netfilter, "", "nf_conntrack_count") }

// policies returns the number of xfrm policies.
func policies() (int, error) {
	all, err := netlink.XfrmPolicyList(netlink.FAMILY_ALL)
	if err != nil {
		return 0, fmt.Errorf("list the xfrm policies: %w", err)
	}
	return len(all), nil
}

// readNetdevs reads the netdevs, and finds anything else that acts on packets that the cube's netdev receives.
func readNetdevs(h *offload.Host, parent cube.Parent, outputs []cube.Output) error {
	all, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list the netdevs: %w", err)
	}
	h.Netdevs = map[string]uint16{}
	h.Elsewhere = "the host's rules do not apply to packets of " + parent.Name + ": attach the cube to a netdev"
	if parent.Name == "" {
		h.Elsewhere = "the cube is not attached"
	}
	for _, l := range all {
		a := l.Attrs()
		h.Netdevs[a.Name] = 0
		if a.Index <= math.MaxUint16 {
			h.Netdevs[a.Name] = uint16(a.Index)
		}
		if h.AtXDP && leavesBy(l, all, outputs) {
			others, err := skipped(l)
			if err != nil {
				return err
			}
			h.Skipped = append(h.Skipped, others...)
		}
		if a.Index != parent.Index || parent.Name != a.Name {
			continue
		}
		h.Elsewhere = ""
		if a.MasterIndex != 0 || slices.ContainsFunc(all, func(other netlink.Link) bool { return takesFrom(other, a.Index) }) {
			h.Elsewhere = "another netdev, such as a bridge or macvlan, takes packets of " + a.Name
		}
		if h.Filters, err = filters(l, netlink.HANDLE_MIN_INGRESS, ebpf.AttachTCXIngress); err != nil {
			return err
		}
	}
	return nil
}

// leavesBy reports whether packets are sent in place of a netdev: outputs lead to it, or to the one below a VLAN netdev.
func leavesBy(l netlink.Link, all []netlink.Link, outputs []cube.Output) bool {
	isOutput := func(l netlink.Link) bool {
		return slices.ContainsFunc(outputs, func(o cube.Output) bool { return o.To == l.Attrs().Name })
	}
	isBelow := func(other netlink.Link) bool { return other.Attrs().Index == l.Attrs().ParentIndex && isOutput(other) }
	return isOutput(l) || l.Type() == "vlan" && slices.ContainsFunc(all, isBelow)
}

// takesFrom reports whether a netdev may take untagged packets of another one, given by its index.
func takesFrom(l netlink.Link, index int) bool {
	return l.Attrs().ParentIndex == index && slices.Contains([]string{"macvlan", "macvtap", "ipvlan", "ipvtap"}, l.Type())
}

// plainQueues are qdiscs that neither limit rates nor classify.
var plainQueues = []string{"noqueue", "pfifo_fast", "pfifo", "bfifo", "mq", "fq", "fq_codel", "ingress", "clsact"}

// skipped lists everything that acts on packets that a netdev sends, but not on those redirected to it at XDP.
func skipped(l netlink.Link) (out []string, err error) {
	out, err = filters(l, netlink.HANDLE_MIN_EGRESS, ebpf.AttachTCXEgress)
	if err != nil {
		return nil, err
	}
	queues, err := netlink.QdiscList(l)
	if err != nil {
		return nil, fmt.Errorf("list the qdiscs of %s: %w", l.Attrs().Name, err)
	}
	for _, q := range queues {
		if !slices.Contains(plainQueues, q.Type()) {
			out = append(out, "qdisc "+q.Type())
		}
	}
	for i := range out {
		out[i] += " on " + l.Attrs().Name
	}
	return out, nil
}

// ourPrefix is that of the names of our programs.
const ourPrefix = "pcn_"

// filters lists the filters and programs at a hook of a netdev that are not ours.
func filters(l netlink.Link, hook uint32, at ebpf.AttachType) (out []string, err error) {
	all, err := netlink.FilterList(l, hook)
	if err != nil {
		return nil, fmt.Errorf("list the filters of %s: %w", l.Attrs().Name, err)
	}
	for _, f := range all {
		if b, ok := f.(*netlink.BpfFilter); ok && b.Id > 0 { // a kernel older than 6.6 has ours here; classic BPF has no ID
			name, err := programName(ebpf.ProgramID(b.Id))
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(name, ourPrefix) {
				continue
			}
		}
		out = append(out, "a tc filter of type "+f.Type())
	}
	query, err := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: at})
	if errors.Is(err, unix.EINVAL) {
		return out, nil // a kernel older than 6.6 has no tcx
	}
	if err != nil {
		return nil, fmt.Errorf("list the programs of %s: %w", l.Attrs().Name, err)
	}
	for _, p := range query.Programs {
		name, err := programName(p.ID)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(name, ourPrefix) {
			out = append(out, "program "+name)
		}
	}
	return out, nil
}

// programName returns the name of a program.
func programName(id ebpf.ProgramID) (string, error) {
	p, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return "pcn_gone", nil // it was detached in between
	}
	if err != nil {
		return "", fmt.Errorf("open program %d: %w", id, err)
	}
	info, err := p.Info()
	if err := errors.Join(err, p.Close()); err != nil {
		return "", fmt.Errorf("read the name of program %d: %w", id, err)
	}
	return info.Name, nil
}

// lookup reports whether the kernel lets programs look up connections.
var lookup = sync.OnceValue(func() bool {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return false
	}
	var fn *btf.Func
	for _, name := range []string{"bpf_skb_ct_lookup", "bpf_xdp_ct_lookup", "bpf_ct_change_timeout", "bpf_ct_release"} {
		if spec.TypeByName(name, &fn) != nil {
			return false
		}
	}
	return true
})
