// SPDX-License-Identifier: Apache-2.0

// Package guest is the first process of the machines that `make test-kernels` boots, and its protocol with the host: a
// Plan on a disk is the input, Frames on a serial port are the output.
//
// The process runs twice. As /init of the initial RAM disk it loads the modules of the disks, mounts them and moves
// there. On the disk it is the parent of everything: it reaps orphans, starts itself once more as the runner of the
// plan's steps, and powers the machine off when the runner ends, for whatever reason.
package guest

import "time"

// Paths in the machine. The tree is the checkout under test, with its test binaries.
const (
	RootDisk    = "/dev/vda"
	ModulesDisk = "/dev/vdb"
	TreeDisk    = "/dev/vdc"
	Tree        = "/work"
	Binary      = Tree + "/.guest/guest"
	PlanFile    = Tree + "/.guest/plan.json"
	// EarlyModules lists, in the initial RAM disk, the files of the modules that reach the disks, in order.
	EarlyModules = "/modules.load"
	// Port is the serial port that carries the frames, as the machine's device is named.
	Port = "polycube.frames"
)

// Plan is the list of steps of a machine between its boot and its end.
type Plan struct {
	// Modules are loaded before the first step. One that the kernel does not have is reported, not fatal: the tests that
	// need it fail and name it.
	Modules []string
	// Env is the environment of all steps, like "NAME=value".
	Env   []string
	Steps []Step
}

// Step is one command of a plan. Steps run in order, one at a time; a step that fails does not stop the next.
type Step struct {
	Name string
	// Dir is where it runs, inside the tree.
	Dir  string
	Args []string
	Env  []string
	// Within is when it is killed, with all its children.
	Within time.Duration
}

// The kinds of a frame.
const (
	Note   = "note"   // Text is information about the machine
	Begin  = "begin"  // Step starts
	Output = "output" // Step wrote Data
	End    = "end"    // Step ended with the exit status Code; -1 and Text when it was killed or could not start
	Alive  = "alive"  // nothing new, but the machine runs; every few seconds
	Done   = "done"   // the plan has ended
)

// Frame is one line of JSON from the machine.
type Frame struct {
	Kind string `json:"kind"`
	Step string `json:"step,omitempty"`
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"`
	Code int    `json:"code,omitempty"`
}

// Heartbeat is the interval in which a machine reports that it is alive.
const Heartbeat = 5 * time.Second
