// SPDX-License-Identifier: Apache-2.0

// Package guest is the first process of the machines that `make test-kernels` boots, and the language it speaks with the
// host: a Plan goes in on a disk, Frames come out of a serial port.
//
// The process runs twice. As /init of the initial RAM disk it loads the modules of the disks, mounts them and moves there.
// On the disk it is the parent of everything: it reaps what others leave, starts itself once more as the runner of the
// plan's steps, and switches the machine off when the runner ends, however that happens.
package guest

import "time"

// Where things are in the machine. The tree is the checkout that is under test, with its test binaries.
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

// Plan is what a machine does between its boot and its end.
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
	Note   = "note"   // Text says something about the machine
	Begin  = "begin"  // Step begins
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

// Heartbeat is how often a machine says that it is alive.
const Heartbeat = 5 * time.Second
