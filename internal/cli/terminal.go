// SPDX-License-Identifier: Apache-2.0

// Help is prose: on a terminal it is wrapped to the width, elsewhere its lines are unchanged, for grep.

package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is how many columns w has, 0 if it is not a terminal.
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
