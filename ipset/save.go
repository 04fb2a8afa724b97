// SPDX-License-Identifier: Apache-2.0

package ipset

// The format of `ipset save` and `ipset restore`.

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLine is the longest line of a save file, in bytes.
const maxLine = 64 << 10

// ReadSave reads a file of `ipset save`. An error names the line.
func ReadSave(from io.Reader) (commands []Command, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' || text == "COMMIT" {
			continue
		}
		c, err := readLine(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		commands = append(commands, c)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	return commands, nil
}

func readLine(text string) (Command, error) {
	args, err := SplitLine(text)
	if err != nil {
		return Command{}, err
	}
	c, err := ReadCommand(args)
	if err == nil && slices.Contains([]string{"list", "save", "restore", "test"}, c.Op) {
		return c, fmt.Errorf("the command %s is not allowed in a save file", c.Op)
	}
	return c, err
}

// SplitLine splits a line of a save file into arguments: at spaces that are not in double quotes, which have no
// escapes.
func SplitLine(line string) (args []string, err error) {
	for {
		line = strings.TrimLeft(line, " \t\r\n")
		if line == "" {
			return args, nil
		}
		if line[0] != '"' {
			end := strings.IndexAny(line, " \t\r\n")
			if end < 0 {
				end = len(line)
			}
			args, line = append(args, line[:end]), line[end:]
			continue
		}
		arg, rest, closed := strings.Cut(line[1:], `"`)
		if !closed {
			return nil, fmt.Errorf("the quote before %q has no end", arg)
		}
		if rest != "" && strings.IndexByte(" \t\r\n", rest[0]) < 0 {
			return nil, fmt.Errorf("no space follows the quoted argument %q", arg)
		}
		args, line = append(args, arg), rest
	}
}

// WriteSave writes commands as `ipset save` does.
func WriteSave(to io.Writer, commands []Command) error {
	w := bufio.NewWriter(to)
	for _, c := range commands {
		fmt.Fprintln(w, c)
	}
	return w.Flush()
}
