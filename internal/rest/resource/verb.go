// SPDX-License-Identifier: Apache-2.0

package resource

import "github.com/polycube/polycube/internal/commands"

// Verbs of the command line, as OPTIONS and the header Polycube-Verb name them.

// VerbHeader is how the command line says which verb a person typed, because POST stands for two.
const VerbHeader = "Polycube-Verb"

// VerbWords are the verbs as typed.
var VerbWords = commands.Verbs()

// The verbs of help.
const (
	VerbNone = "NONE"
	VerbAdd  = "ADD"
	VerbSet  = "SET"
	VerbShow = "SHOW"
	VerbDel  = "DEL"
)

// ParamAll means the whole list, FlagAll is how that is typed.
const (
	ParamAll = "all"
	FlagAll  = "--all"
)

// The parameters of a page.
const (
	ParamLimit  = "limit"
	ParamAfter  = "after"
	ParamFilter = "filter"
	MaxLimit    = 1000000
)

// Limits of a list of revisions.
const (
	DefaultRevisions = 20
	MaxRevisions     = 1000
)
