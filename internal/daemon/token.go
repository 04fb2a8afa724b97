// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/rest"
)

// The token is what a client over TCP shows to prove that it may read a file of root or
// of the group. It outlives restarts, so that clients need not fetch it again.

const tokenBytes = 32

// loadToken reads the token of a run directory, or makes one when there is none that is
// ours and private.
func loadToken(runDir string) (string, error) {
	path := filepath.Join(runDir, "token")
	if token, ok := readToken(path); ok {
		return token, nil
	}
	raw := make([]byte, tokenBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	token := hex.EncodeToString(raw)
	if err := writeToken(path, token); err != nil {
		return "", fmt.Errorf("writing the token: %w", err)
	}
	return token, nil
}

// readToken accepts a regular file of ours that others cannot read.
func readToken(path string) (string, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG ||
		st.Mode&0o037 != 0 || int(st.Uid) != os.Geteuid() {
		return "", false
	}
	text := make([]byte, 2*tokenBytes)
	if _, err := io.ReadFull(f, text); err != nil {
		return "", false
	}
	_, err = hex.DecodeString(string(text))
	return string(text), err == nil
}

// writeToken replaces the file in one step; it is never readable by others.
func writeToken(path, token string) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(token + "\n")
	if g, lookupErr := user.LookupGroup(rest.Group); lookupErr == nil && os.Geteuid() == 0 && err == nil {
		if gid, convErr := strconv.Atoi(g.Gid); convErr == nil {
			err = f.Chown(0, gid)
		}
	}
	if err == nil {
		err = f.Chmod(0o640)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
