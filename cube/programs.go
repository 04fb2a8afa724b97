// SPDX-License-Identifier: Apache-2.0

package cube

// A cube may consist of several programs: packets enter at index 0 of their direction, and programs pass a packet to
// each other by index with pcn_call_program. The function at an index can be changed at any time: with a plan, as part
// of a change of configuration, or separately through Env.Programs.

// MaxPrograms is the maximum number of programs of a cube in one direction.
const MaxPrograms = 32

// Program is a program of a cube: a function, PCN_PROGRAM(name) in C, of a compiled object.
type Program struct {
	// Function is its C name.
	Function string
	// Objects are the compiled files (ELF) that contain it, by hook; nil means the service's own. A map with the
	// name of one of the cube's maps is that map, and must have its layout; others are created for the cube. The
	// bytes must not be changed afterwards.
	Objects map[Hook][]byte
	// Transient maps of the objects exist only as long as a program of the cube uses them; otherwise, they exist as long
	// as the cube, so that an object that is used again finds its entries. The service's own maps are never transient.
	Transient bool
}

// ProgramSlot is the slot of a program. The zero value is where received packets enter.
type ProgramSlot struct {
	Direction Direction
	// Index is 0 to MaxPrograms-1. Packets enter at 0; calling an index without a program drops the packet as no-program.
	Index int
}

// Programs are the programs that a cube consists of. A cube starts with pcn_ingress at index 0 of Ingress and, if its
// object has one, pcn_egress at index 0 of Egress.
//
// Each method is one change: when it returns, every packet runs the new programs, and none was lost or saw a mixture.
// After an error nothing has changed: ErrNotFound for a function that the object does not have, ErrInvalid for an index
// out of range and for removing the program where packets enter, ErrFull if all indexes are in use.
//
// Methods may be called from handlers and from goroutines of the cube's own, and wait for the data plane. They must not
// be called from Prepare and the steps of a plan, which have Plan.Programs. Their changes are not configuration: after
// a restart the cube consists of the programs in its plan of creation.
type Programs interface {
	// Reload puts a program into a slot, whether or not the slot is in use.
	Reload(ProgramSlot, Program) error
	// ReloadAll makes several changes at once; nil removes a program.
	ReloadAll(map[ProgramSlot]*Program) error
	// AddProgram puts a program at the lowest free index of a direction and returns that index.
	AddProgram(Direction, Program) (index int, err error)
	// DelProgram removes a program; ErrNotFound if there is none.
	DelProgram(ProgramSlot) error
	// List returns the programs in use.
	List() map[ProgramSlot]Program
}
