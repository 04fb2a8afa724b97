// SPDX-License-Identifier: Apache-2.0

package feedback

// Secrets of agents. They are in files that only root can read, of one directory, and are neither in the configuration nor in its
// history. A configuration names a file of that directory alone: with any path, whoever may configure a cube could have the daemon
// send what other files contain.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

const (
	// SecretsDir is the directory of secrets.
	SecretsDir = "/etc/polycube/secrets" //nolint:gosec // a directory
	// leastPassphrase is the shortest one that SNMPv3 permits (RFC 3414, section 11.2).
	leastPassphrase = 8
	maxSecrets      = 4 << 10
)

// secretName is what files of secrets may be called: the pattern of the model's leaf.
var secretName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

// credentials are the lines of a file of secrets.
type credentials struct{ community, auth, priv string }

// readCredentials reads a file of secrets; without a name there are none. Errors do not quote the file.
func readCredentials(dir, name string) (c credentials, err error) {
	if name == "" {
		return c, nil
	}
	fail := func(why error) (credentials, error) {
		return credentials{}, fmt.Errorf("credentials %s: %w", name, why)
	}
	if !secretName.MatchString(name) {
		return fail(errors.New("not the name of a file in " + dir))
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fail(err)
	case !info.Mode().IsRegular():
		return fail(errors.New("not a file"))
	case info.Mode().Perm()&0o077 != 0:
		return fail(errors.New("others can read it: chmod 600"))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecrets+1))
	if err != nil {
		return fail(err)
	}
	if len(data) > maxSecrets {
		return fail(fmt.Errorf("longer than %d bytes", maxSecrets))
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, value, _ := strings.Cut(line, " ")
		to, ok := map[string]*string{"community": &c.community, "auth": &c.auth, "priv": &c.priv}[word]
		if value = strings.TrimSpace(value); !ok || value == "" {
			return fail(fmt.Errorf("line %d: want `community`, `auth` or `priv`, and a value", n))
		}
		*to = value
	}
	if err := lines.Err(); err != nil {
		return fail(err)
	}
	return c, nil
}
