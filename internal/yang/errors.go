// SPDX-License-Identifier: Apache-2.0

// Paths and errors of package fault under the names of this one, which its callers use.

package yang

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/internal/fault"
)

type (
	// Step is one node on a path.
	Step = fault.Step
	// Path leads from a cube to a node in it.
	Path = fault.Path
	// Tag is a RESTCONF error tag.
	Tag = fault.Tag
	// Error is a request that the model refuses.
	Error = fault.Error
)

// The tags of errors.
const (
	InvalidValue          = fault.InvalidValue
	MissingAttribute      = fault.MissingAttribute
	MissingElement        = fault.MissingElement
	BadAttribute          = fault.BadAttribute
	BadElement            = fault.BadElement
	DataExists            = fault.DataExists
	DataMissing           = fault.DataMissing
	OperationNotSupported = fault.OperationNotSupported
)

// ErrNotFound is wrapped by the error of reading data that does not exist.
var ErrNotFound = fault.ErrNotFound

// PartialKeysError is a path that ends within the keys of a list.
type PartialKeysError struct {
	// List is the list whose keys are incomplete.
	List *Node
	// Path leads to the list; the keys that were given are not part of it.
	Path Path
	// Given are the given keys, in model order.
	Given []string
}

// Error names the missing keys.
func (e *PartialKeysError) Error() string {
	var missing []string
	for _, k := range e.List.Keys()[len(e.Given):] {
		missing = append(missing, k.Name())
	}
	return fmt.Sprintf("%s: %d of %d keys given, missing: %s", e.Path.Words(), len(e.Given), len(e.List.Keys()),
		strings.Join(missing, ", "))
}
