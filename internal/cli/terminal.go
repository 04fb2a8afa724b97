// SPDX-License-Identifier: Apache-2.0

// Help is prose: on a terminal it is wrapped to it, elsewhere its lines are left
// alone, for grep.

package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is how many columns w has, 0 when it is no terminal.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
