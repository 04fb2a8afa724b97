// SPDX-License-Identifier: Apache-2.0

// Package iptables filters the packets of the host by the chains and rules of iptables. Package language knows it; this package compiles rules for package classifier, and keeps chains, counters and connections.
package iptables

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/binary"
	"errors"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/conntrack/session"
	"github.com/polycube/polycube/conntrack/zone"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/hostaddr"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/ipset/elements"
	"github.com/polycube/polycube/nflog"
)

// files are the model and the compiled programs.
//
//go:embed iptables.yang iptables.tc.o iptables.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{
		Files: files,
		New:   func(env cube.Env) (cube.Instance, error) { return newIptables(env).instance(), nil },
	})
}

// hook is struct iptables_hook.
type hook struct{ Chain, Result uint32 }

// netdev is struct iptables_netdev.
type netdev struct{ Name [16]byte }

// numbered is struct iptables_chain.
type numbered struct {
	Set  uint16
	Raw  uint16 // 1 for the table raw
	Name [28]byte
}

func numberedOf(k key) numbered {
	n := numbered{Set: uint16(k.set)}
	if k.table == raw {
		n.Raw = 1
	}
	copy(n.Name[:], k.name)
	return n
}

func (n *numbered) key() key {
	k := filterKey(int(n.Set), string(bytes.TrimRight(n.Name[:], "\x00")))
	if n.Raw != 0 {
		k.table = raw
	}
	return k
}

type iptables struct {
	env cube.Env

	// The state in effect; config is nil before the first change.
	config *Config
	chains map[key]*chain
	raw    rawChains
	// asks is set once a rule asks for what the cube nat does; it stays set, so that rules come and go without new programs.
	asks bool
	// leaving are chains that are no more, until their counters are closed.
	leaving map[*chain]bool

	sets      [len(families)]*classifier.Set
	hooks     table.Table[uint32, hook]
	rows      table.Table[uint32, row]
	names     table.Table[uint32, numbered]
	counted   table.Table[counted, uint64]
	addresses table.Table[inet.Address, uint32]
	own       *hostaddr.Follower
	netdevs   table.Table[uint32, netdev]
	events    *session.Events
	zone      *zone.Zone
	answers   *answers
	groups    nflog.Sender

	crowds     *crowds
	memory     *elements.Memory
	references *classifier.References
}

func newIptables(env cube.Env) *iptables {
	f := &iptables{
		env: env, chains: map[key]*chain{}, leaving: map[*chain]bool{}, hooks: table.New[uint32, hook](env, "hooks"), rows: table.New[uint32, row](env, "rows"),
		names: table.New[uint32, numbered](env, "names"), netdevs: table.New[uint32, netdev](env, "netdevs"),
		counted: table.New[counted, uint64](env, "counted"), addresses: table.New[inet.Address, uint32](env, "addresses"), events: session.NewEvents(env, zone.EventLimit), answers: newAnswers(secret()),
		crowds: newCrowds(env), memory: elements.New(env), references: classifier.NewReferences(env),
	}
	f.own = hostaddr.New(env, f.takeAddresses)
	f.zone = zone.New(env, f.events)
	env.Every(crowdTick, f.countOut)
	for set := range f.sets {
		f.sets[set] = classifier.New(env, uint32(set))
	}
	return f
}

// instance returns the functions that the framework calls.
func (f *iptables) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(f.prepare), State: f.State, Page: f.zone.Page, DeleteState: f.zone.DeleteState, Action: f.Action,
		Notify: f.Notify, ParentChanged: f.parentChanged, Deleted: f.zone.Deleted, Close: f.close,
	}
}

func (f *iptables) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	if c.New != nil {
		if err := c.New.check(f.env.Type()); err != nil {
			return cube.Plan{}, err
		}
	}
	n, err := f.newChange(c)
	if err != nil {
		return cube.Plan{}, err
	}
	plan := cube.Plan{Before: []cube.Step{cube.Effect(n.commit)}}
	if c.New != nil || n.asks != f.asks {
		if plan.Constants, err = n.config.constants(f.answers.mark, n.raw.any(), n.asks); err != nil {
			return cube.Plan{}, err
		}
	}
	if c.New != nil {
		open := cube.Effect(func() (func() error, error) { return nil, f.zone.Open(&c.New.Settings) })
		plan.Before = append([]cube.Step{open, f.zone.Apply(&c.New.Settings, c.New.Extras(""))}, plan.Before...)
	}
	plan.After = append(plan.After, cube.Effect(func() (func() error, error) { return nil, n.after() }), cube.Effect(n.free), cube.Effect(f.own.Follow))
	return plan, nil
}

// after carries out the steps of the classifier that free memory.
func (n *change) after() error {
	var errs []error
	for _, p := range n.plans {
		for _, step := range p.After {
			_, err := step.Do()
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// secret returns a mark that is not 0.
func secret() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint32(b[:]) | 1
}

// chainNumbers returns the numbers of the chains in effect.
func (f *iptables) chainNumbers() map[key]uint32 {
	out := map[key]uint32{}
	for k, c := range f.chains {
		out[k] = c.number
	}
	return out
}

// kept returns the numbers of the chains that packets use.
func (f *iptables) kept() (map[key]uint32, error) {
	out := map[key]uint32{}
	var err error
	for number, name := range f.names.All(&err) {
		out[name.key()] = number
	}
	return out, err
}

// parentChanged takes over which netdevs there are.
func (f *iptables) parentChanged(p cube.Parent) {
	want := map[uint32]netdev{}
	add := func(index int, name string) {
		if index == 0 {
			return
		}
		var n netdev
		copy(n.Name[:15], name)
		want[uint32(index)] = n
	}
	add(p.Index, p.Netdev)
	for index, name := range p.Netdevs {
		add(index, name)
	}
	if _, err := table.Replace(f.netdevs, want).Do(); err != nil {
		f.env.Logger().Error("rules do not match by interface", "error", err)
	}
}

// close ends the use of the memory. Packets still see the rules, and connections stay.
func (f *iptables) close() {
	var errs []error
	for _, c := range f.chains {
		errs = append(errs, c.counters.Close())
	}
	for c := range f.leaving {
		errs = append(errs, c.counters.Close())
	}
	for _, s := range f.sets {
		errs = append(errs, s.Close())
	}
	f.own.Close()
	errs = append(errs, f.memory.Close(), f.references.Close())
	if err := errors.Join(append(errs, f.answers.close(), f.groups.Close(), f.zone.Close())...); err != nil {
		f.env.Logger().Error("close the firewall", "error", err)
	}
}
