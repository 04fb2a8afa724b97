// SPDX-License-Identifier: Apache-2.0

package efw

// Lists the tables of nftables by netlink, which takes microseconds, so that programs print only those that are needed: nft takes four
// times as long as iptables-nft-save for the same rules.

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/iptables/nft"
)

// nftTable is a table, by its family in nft's words and its name.
type nftTable struct{ family, name string }

// nftFamilies are the families by their numbers in messages.
var nftFamilies = map[uint8]string{
	unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_ARP: "arp", unix.NFPROTO_NETDEV: "netdev", unix.NFPROTO_BRIDGE: "bridge", unix.NFPROTO_IPV6: "ip6",
}

// compatTables are the names of tables that iptables-nft may have made.
var compatTables = []string{"filter", "nat", "mangle", "raw", "security"}

// mayBeOf reports whether iptables-nft may have made a table, for a family by its position.
func (t nftTable) mayBeOf(f int) bool {
	return t.family == []string{"ip", "ip6"}[f] && slices.Contains(compatTables, t.name)
}

// nftTables lists the tables of the namespace of the calling thread. A kernel without nftables has none.
func nftTables() (out []nftTable, err error) {
	const list = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETTABLE
	request := nl.NewNetlinkRequest(list, unix.NLM_F_DUMP)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	switch {
	case errors.Is(err, unix.EINVAL):
		return nil, nil
	case err != nil && !errors.Is(err, nl.ErrDumpInterrupted): // a change in between is announced, too
		return nil, fmt.Errorf("list the tables of nftables: %w", err)
	}
	for _, m := range messages {
		if len(m) < nl.SizeofNfgenmsg {
			return nil, errors.New("list the tables of nftables: a message is too short")
		}
		attributes, err := nl.ParseRouteAttr(m[nl.SizeofNfgenmsg:])
		if err != nil {
			return nil, fmt.Errorf("list the tables of nftables: %w", err)
		}
		for _, a := range attributes {
			if a.Attr.Type == unix.NFTA_TABLE_NAME {
				out = append(out, nftTable{nftFamilies[m[0]], nl.BytesToString(a.Value)})
			}
		}
	}
	return out, nil
}

// maxSingle is how many tables are printed one by one, if not all are needed.
const maxSingle = 4

// plainName is a name that nft reads as it is.
var plainName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]*$`)

// readNft reads tables, of all that there are, as nft prints them; nil if there are none.
func readNft(ctx context.Context, tables []nftTable, all int) (*nft.Host, error) {
	if len(tables) == 0 {
		return nil, nil
	}
	single := len(tables) < all && len(tables) <= maxSingle
	for _, t := range tables {
		single = single && t.family != "" && plainName.MatchString(t.name)
	}
	if single {
		if texts, err := printTables(ctx, tables); err == nil { // otherwise one is gone, or has the name of a keyword
			return readHost(texts...)
		}
	}
	text, err := start(ctx, "nft", "-j", "list", "ruleset")()
	if errors.Is(err, errMissing) {
		return nil, fmt.Errorf("the host has tables of nftables, and %w", err)
	}
	if err != nil {
		return nil, err
	}
	return readHost(string(text))
}

// printTables has nft print tables, all at the same time.
func printTables(ctx context.Context, tables []nftTable) (out []string, err error) {
	waits := make([]func() ([]byte, error), len(tables))
	for i, t := range tables {
		waits[i] = start(ctx, "nft", "-j", "list", "table", t.family, t.name)
	}
	for _, wait := range waits {
		text, failed := wait()
		out, err = append(out, string(text)), errors.Join(err, failed)
	}
	return out, err
}

func readHost(texts ...string) (*nft.Host, error) {
	h, err := nft.ReadHost(texts...)
	if err != nil {
		return nil, fmt.Errorf("what nft prints: %w", err)
	}
	return h, nil
}
