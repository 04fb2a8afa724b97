// SPDX-License-Identifier: Apache-2.0

// Commands about the whole configuration: export, apply, history and rollback. Their flags follow conventions of
// similar commands, which do not fit the grammar of all other commands.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/cli/output"
)

// isFileCommand reports whether a command is in this file.
func isFileCommand(command string) bool {
	return slices.Contains([]string{"export", "apply", "history", "rollback"}, command)
}

// fileCommand is such a command.
type fileCommand struct {
	command                         string
	words                           []string
	files                           []string
	out, revision, count            string
	dry, yes, prune, detailed, json bool
}

// parseFiling parses the words after the name of such a command.
func parseFiling(command string, words []string) (fileCommand, error) {
	f := fileCommand{command: command}
	valued := map[string]func(string){}
	flags := map[string]*bool{"-json": &f.json, "--json": &f.json}
	changes := map[string]*bool{"--dry-run": &f.dry, "--yes": &f.yes, "-y": &f.yes, "--detailed-exitcode": &f.detailed}
	once := func(to *string) func(string) { return func(v string) { *to = v } }
	switch command {
	case "export":
		valued["-o"], valued["-r"] = once(&f.out), once(&f.revision)
	case "history":
		valued["-n"] = once(&f.count)
	case "apply":
		valued["-f"] = func(v string) { f.files = append(f.files, v) }
		flags["--prune"] = &f.prune
	}
	if command == "apply" || command == "rollback" {
		for name, to := range changes {
			flags[name] = to
		}
	}
	for i := 0; i < len(words); i++ {
		name, value, given := strings.Cut(words[i], "=")
		switch set := valued[name]; {
		case set == nil && flags[words[i]] != nil:
			*flags[words[i]] = true
		case set == nil && strings.HasPrefix(words[i], "-"):
			return f, f.wrong("%s", unknownFlag(command, words[i]))
		case set == nil:
			f.words = append(f.words, words[i])
		case given:
			set(value)
		case i+1 == len(words):
			return f, f.wrong("%s needs a value", name)
		default:
			i++
			set(words[i])
		}
	}
	return f, f.check()
}

func (f fileCommand) wrong(format string, args ...any) error {
	return &usageError{message: f.command + ": " + fmt.Sprintf(format, args...), usage: aliases[f.command].Usage}
}

func (f *fileCommand) check() error {
	takes := map[string]int{"history": 1, "rollback": 1}[f.command]
	switch {
	case len(f.words) > takes && f.command == "apply":
		return f.wrong("files are given with -f: -f %s", f.words[0])
	case len(f.words) > takes:
		return f.wrong("unexpected argument %q", f.words[takes])
	case f.command == "apply" && len(f.files) == 0:
		return f.wrong("specify a file with -f; -f - is standard input")
	case f.command == "rollback" && len(f.words) == 0:
		return f.wrong("specify the revision; history lists the revisions")
	}
	if len(f.words) > 0 {
		f.revision = f.words[0]
	}
	for what, text := range map[string]string{"a revision": f.revision, "-n": f.count} {
		if _, err := strconv.ParseUint(text, 10, 63); text != "" && err != nil {
			return f.wrong("%s must be a number, not %q", what, text)
		}
	}
	return nil
}

// file executes such a command.
func (s *session) file(command string, words []string) error {
	f, err := parseFiling(command, words)
	if err != nil {
		return err
	}
	switch command {
	case "export":
		return s.export(f)
	case "history":
		return s.history(f)
	case "rollback":
		body := output.ObjectValue(output.Member{Key: "revision", Val: output.Value{Kind: output.KindNumber, Text: f.revision}})
		return s.change(f, request{method: "POST", path: []string{"rollback"}, body: body.AppendJSON(nil)}, nil)
	}
	doc, err := s.readFiles(f.files)
	if err != nil {
		return err
	}
	r := request{method: "PATCH", path: []string{"config"}, body: doc.json()}
	if f.prune {
		r.method = "PUT"
	}
	return s.change(f, r, doc)
}

// demand makes one exchange; an error response is an error.
func (s *session) demand(r request) (answer, error) {
	c, err := s.connect()
	if err != nil {
		return answer{}, err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.timeout)
	defer cancel()
	s.sent = r
	a, err := c.do(ctx, r)
	if err != nil {
		return a, err
	}
	if s.status = a.status; !a.ok() {
		return a, &serverError{sentences(a)}
	}
	return a, nil
}

// export prints the configuration, or writes it to a file completely or not at all.
func (s *session) export(f fileCommand) error {
	r := request{method: "GET", path: []string{"config"}}
	if f.revision != "" {
		r.query = "revision=" + f.revision
	}
	a, err := s.demand(r)
	if err != nil {
		return err
	}
	show := output.Options{Form: output.FormYAML}
	if f.json {
		show.Form = output.FormJSON
	}
	if f.out == "" || f.out == "-" {
		return output.Print(s.stdout, a.body, show, false)
	}
	err = writeFile(f.out, func(to io.Writer) error { return output.Print(to, a.body, show, false) })
	return writeError("write "+f.out, err)
}

// writeFile writes a complete file, or leaves the old one.
func writeFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
