// SPDX-License-Identifier: Apache-2.0

// Package expedite requests expedited RCU grace periods while a change is committed, for the data plane and for cubes.
package expedite

import (
	"bytes"
	"os"
	"strconv"
	"sync"
)

// The kernel waits for an RCU grace period whenever a program is attached to a netdev or detached (tcx, XDP) and
// whenever the inner map of a map of maps changes: 8 to 40 ms each, on an idle machine. Expedited grace periods take
// microseconds, and interrupt each CPU once. So they are requested while a change is committed, and only then
// (docs/adr/0014-expedited-grace-periods.md).
//
// The setting belongs to the machine, and several daemons may use it at once. Any number but zero enables it, so a
// specific number identifies Polycube: a daemon that finds it treats it as its own and writes zero at its end. Other
// numbers are never changed, two concurrent daemons only cost each other time, and the next daemon restores the setting
// of a killed one. rcu_normal, which administrators of real-time machines set, takes precedence.
const (
	// File is the machine's setting.
	File = "/sys/kernel/rcu_expedited"
	// Ours is the number that a Polycube daemon writes to it.
	Ours = 20011
)

// expediter enables expedited grace periods while they are needed.
type expediter struct {
	file string

	mu sync.Mutex
	// users is the number of changes in progress that use it.
	users int
}

var machine = &expediter{file: File}

// Begin enables expedited grace periods of the machine until end is called. If that is impossible (a container without
// a writable /sys) changes take longer, without other differences.
func Begin() (end func()) { return machine.begin() }

// Renew enables them again if another daemon, at its end, has disabled them meanwhile.
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
