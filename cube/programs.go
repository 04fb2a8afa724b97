// SPDX-License-Identifier: Apache-2.0

package cube

// A cube may consist of several programs: packets enter at index 0 of their direction, and programs hand a packet to each
// other by index with pcn_call_program. Which function stands at which index can be changed at any time: with a plan, so
// that it belongs to a change of configuration, or on its own by Env.Programs.

// MaxPrograms is how many programs a cube can have in one direction.
const MaxPrograms = 32

// Program is a program of a cube: a function, PCN_PROGRAM(name) in C, of a compiled object.
type Program struct {
	// Function is its C name.
	Function string
	// Objects are the compiled files (ELF) that hold it, by hook; nil means the service's own. A map that has the name of
	// one of the cube's maps is that map, and must have its layout; others are made for the cube. The bytes must not be
	// changed afterwards.
	Objects map[Hook][]byte
}

// ProgramSlot is the place of a program. The zero value is where received packets enter.
type ProgramSlot struct {
	Direction Direction
	// Index is 0 to MaxPrograms-1. Packets enter at 0; calling an index without a program drops the packet as no-program.
	Index int
}

// Programs are the programs that a cube consists of. A cube begins with pcn_ingress at index 0 of Ingress and, if its
// object has one, pcn_egress at index 0 of Egress.
//
// Each method is one change: when it returns, every packet meets the new programs, and none was lost or met a mixture.
// After an error all is as before: ErrNotFound for a function that the object does not have, ErrInvalid for an index out
// of range and for taking away the program where packets enter, ErrFull when all indexes are taken.
//
// Methods may be called from handlers and from goroutines of the cube's own, and wait for the data plane. They must not be
// called from Prepare and the steps of a plan, which have Plan.Programs. What they change is not configuration: after a restart
// the cube consists of what its plan of creation says.
type Programs interface {
	// Reload puts a program into a slot, whether there is one or not.
	Reload(ProgramSlot, Program) error
	// ReloadAll makes several changes in one; nil takes a program away.
	ReloadAll(map[ProgramSlot]*Program) error
	// AddProgram puts a program at the lowest free index of a direction and returns that.
	AddProgram(Direction, Program) (index int, err error)
	// DelProgram takes a program away; ErrNotFound if there is none.
	DelProgram(ProgramSlot) error
	// List returns the programs in use.
	List() map[ProgramSlot]Program
}
