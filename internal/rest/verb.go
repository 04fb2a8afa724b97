// SPDX-License-Identifier: Apache-2.0

package rest

// Verbs of the command line, as OPTIONS and the header Polycube-Verb name them.

// verbHeader is how the command line says which verb a person typed: POST stands for two.
const verbHeader = "Polycube-Verb"

// verbWords are the verbs as they are typed.
var verbWords = []string{"add", "del", "show", "set"}

// The verbs of help.
const (
	verbNone = "NONE"
	verbAdd  = "ADD"
	verbSet  = "SET"
	verbShow = "SHOW"
	verbDel  = "DEL"
)

// paramAll says that the whole list is meant, flagAll is how that is typed.
const (
	paramAll = "all"
	flagAll  = "--all"
)

// The parameters of a page.
const (
	paramLimit  = "limit"
	paramAfter  = "after"
	paramFilter = "filter"
	maxLimit    = 1000000
)
