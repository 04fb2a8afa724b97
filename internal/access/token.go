// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A client over TCP presents a token to prove that it can read a file of root or of a group. The files survive
// restarts, so clients need not fetch them again, and are read at each use: writing a new token, or removing the file,
// takes effect immediately.

const tokenBytes = 32

// Names of the files in the run directory.
const (
	adminToken  = "token"
	readerToken = "token-read"
)

// Tokens are the tokens of one daemon.
type Tokens struct {
	dir                     string
	adminGroup, readerGroup int
}

// OpenTokens creates the tokens in a directory, if there are no private ones of the daemon. The groups can read them;
// a negative one is none.
func OpenTokens(dir string, adminGroup, readerGroup int) (*Tokens, error) {
	t := &Tokens{dir, adminGroup, readerGroup}
	return t, t.Renew()
}

// Renew re-creates the tokens that are missing or cannot be trusted.
func (t *Tokens) Renew() error {
	for _, f := range []struct {
		name  string
		group int
	}{{adminToken, t.adminGroup}, {readerToken, t.readerGroup}} {
		path := filepath.Join(t.dir, f.name)
		if _, err := readToken(path); err == nil {
			continue
		}
		raw := make([]byte, tokenBytes)
		if _, err := rand.Read(raw); err != nil {
			return fmt.Errorf("create a token: %w", err)
		}
		if err := writeToken(path, hex.EncodeToString(raw), f.group); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// Role is the role of a token; None for an unknown token.
func (t *Tokens) Role(token string) Role {
	role := None
	for _, f := range []struct {
		name string
		role Role
	}{{readerToken, Reader}, {adminToken, Admin}} {
		ours, err := readToken(filepath.Join(t.dir, f.name))
		if err == nil && subtle.ConstantTimeCompare([]byte(token), []byte(ours)) == 1 {
			role = f.role
		}
	}
	return role
}

// readToken accepts a regular file of the daemon that others cannot read or write.
func readToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o037 != 0 || int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
		return "", errors.New("not a private file of the daemon")
	}
	text := make([]byte, 2*tokenBytes)
	if _, err := io.ReadFull(f, text); err != nil {
		return "", err
	}
	_, err = hex.DecodeString(string(text))
	return string(text), err
}

// writeToken replaces the file in one step; it is never readable by others.
func writeToken(path, token string, group int) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(token + "\n")
	if group >= 0 && os.Geteuid() == 0 && err == nil {
		err = f.Chown(0, group)
	}
	if err == nil {
		err = f.Chmod(0o640)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
