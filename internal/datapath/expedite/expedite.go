// SPDX-License-Identifier: Apache-2.0

// Package expedite asks the kernel for expedited RCU grace periods while a change is committed.
package expedite

import (
	"bytes"
	"os"
	"strconv"
	"sync"
)

// The kernel waits for an RCU grace period wherever a program is put on a netdev or taken off
// (tcx, XDP) and wherever the inner map of a map of maps changes: 8 to 40 ms each, on a machine
// that has nothing else to do. Expedited grace periods take microseconds, and interrupt each
// processor once for it. So they are asked for while a change is committed, and only then
// (docs/adr/0014-expedited-grace-periods.md).
//
// The switch belongs to the machine, and several daemons may use it at once. Any number but zero
// switches it on, so a number of our own says that it was us: whoever finds it takes it for its
// own and puts zero back at its end. Nobody's number is changed, two daemons at a time cost each
// other nothing but time, and what a killed daemon has left is put back by the next one.
// rcu_normal, which administrators of real-time machines set, wins over it.
const (
	// File is the machine's switch.
	File = "/sys/kernel/rcu_expedited"
	// Ours is the number that a Polycube daemon writes there.
	Ours = 20011
)

// expediter switches expedited grace periods on while somebody needs them.
type expediter struct {
	file string

	mu sync.Mutex
	// users are the changes under way that have it switched on.
	users int
}

var machine = &expediter{file: File}

// Begin switches expedited grace periods of the machine on until end is called. Where that
// is not possible (a container without a writable /sys) changes take longer, and nothing else is
// different.
func Begin() (end func()) { return machine.begin() }

// Renew switches them on again where another daemon, at its end, has switched them off
// meanwhile.
func Renew() { machine.renew() }

func (e *expediter) begin() (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users == 0 {
		if now, ok := e.read(); !ok || now != 0 && now != Ours || !e.write(Ours) {
			return func() {}
		}
	}
	e.users++
	return sync.OnceFunc(e.end)
}

func (e *expediter) renew() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users == 0 {
		return
	}
	if now, ok := e.read(); ok && now == 0 {
		e.write(Ours)
	}
}

func (e *expediter) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users--; e.users > 0 {
		return
	}
	if now, ok := e.read(); ok && now == Ours {
		e.write(0)
	}
}

func (e *expediter) read() (int, bool) {
	text, err := os.ReadFile(e.file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	return n, err == nil
}

func (e *expediter) write(n int) bool {
	f, err := os.OpenFile(e.file, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	_, err = f.WriteString(strconv.Itoa(n))
	return f.Close() == nil && err == nil
}
