// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// The configuration file lists every option with its default, commented out, so that users see what can be set.

// notInFile are options that are about the command line itself.
var notInFile = map[string]bool{"configfile": true, "help": true, "version": true, "check-config": true, "json": true}

// defaultConfig is the text of a configuration file that changes nothing.
func defaultConfig() string {
	var b strings.Builder
	b.WriteString("# Options of polycubed: lines \"option: value\", # starts a comment. The command line overrides them.\n" +
		"# Every option is listed with its default; polycubed --check-config reports errors.\n")
	flagSet("polycubed", &rawOptions{}).VisitAll(func(f *pflag.Flag) {
		if f.Hidden || notInFile[f.Name] {
			return
		}
		value := f.DefValue
		if value == "" || value == "[]" {
			value = `""`
		}
		fmt.Fprintf(&b, "\n# %s\n# %s: %s\n", strings.ReplaceAll(f.Usage, "\n", " "), f.Name, value)
	})
	return b.String()
}

// makeConfig writes the configuration file with its defaults if there is none. If another daemon does so at the same
// time, the first one wins.
func makeConfig(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look for the configuration file: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create the directory of the configuration file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the configuration file: %w", err)
	}
	_, err = f.WriteString(defaultConfig())
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the configuration file: %w", err)
	}
	return nil
}
