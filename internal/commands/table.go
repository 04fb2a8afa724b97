// SPDX-License-Identifier: Apache-2.0

package commands

import "slices"

// table has every command, in the order of help.
var table = slices.Concat(linkCommands, cubeCommands, observeCommands, configCommands, otherCommands)
