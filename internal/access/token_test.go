// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tokensIn opens the tokens of a directory.
func tokensIn(t *testing.T, dir string) *Tokens {
	t.Helper()
	tokens, err := OpenTokens(dir, -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func tokenOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

// TestTokens: they are private, survive a restart, and are not taken from a file that
// others could read or write, or that is not ours to trust.
func TestTokens(t *testing.T) {
	for file, role := range map[string]Role{adminToken: Admin, readerToken: Reader} {
		dir := t.TempDir()
		path := filepath.Join(dir, file)
		first := tokensIn(t, dir)
		old := tokenOf(t, path)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o640 || len(old) != 2*tokenBytes {
			t.Fatalf("%s: mode %v, %v, token %q", file, info.Mode(), err, old)
		}
		if got := tokensIn(t, dir).Role(old); got != role {
			t.Errorf("%s: after a restart its role is %v, want %v", file, got, role)
		}
		for name, spoil := range map[string]func() error{
			"others can read it":     func() error { return os.Chmod(path, 0o644) },
			"the group can write it": func() error { return os.Chmod(path, 0o660) },
			"it is short":            func() error { return os.Truncate(path, 10) },
			"it is gone":             func() error { return os.Remove(path) },
			"it has another name":    func() error { return os.Link(path, filepath.Join(t.TempDir(), "elsewhere")) },
			"it is no token":         func() error { return os.WriteFile(path, bytes.Repeat([]byte{'x'}, 100), 0o600) },
			"it is a link": func() error {
				return errors.Join(os.Rename(path, path+".elsewhere"), os.Symlink(path+".elsewhere", path))
			},
		} {
			before := tokenOf(t, path)
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			if got := first.Role(before); got != None {
				t.Errorf("%s: %s, and its role is %v", file, name, got)
			}
			if err := first.Renew(); err != nil {
				t.Fatal(err)
			}
			if after := tokenOf(t, path); after == before || first.Role(after) != role || first.Role(before) != None {
				t.Errorf("%s: %s: the token stays %q", file, name, after)
			}
			if info, err := os.Lstat(path); err != nil || info.Mode() != 0o640 {
				t.Errorf("%s: %s: the new file has mode %v, %v", file, name, info.Mode(), err)
			}
		}
	}
}

// TestTokenIsReadAtEachUse: a token that somebody writes counts at once, the old one no
// more, and what is no token gives no right.
func TestTokenIsReadAtEachUse(t *testing.T) {
	dir := t.TempDir()
	tokens := tokensIn(t, dir)
	path := filepath.Join(dir, adminToken)
	old, mine := tokenOf(t, path), strings.Repeat("5a", tokenBytes)
	if err := os.WriteFile(path, []byte(mine+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]Role{mine: Admin, old: None, "": None, mine[:10]: None, mine + "5": None, strings.ToUpper(mine): None,
		tokenOf(t, filepath.Join(dir, readerToken)): Reader} {
		if got := tokens.Role(token); got != want {
			t.Errorf("token %q has role %v, want %v", token, got, want)
		}
	}
}

// TestTokenPlaces: a link where a token is made is replaced, and what it leads to stays.
func TestTokenPlaces(t *testing.T) {
	for _, name := range []string{adminToken, adminToken + ".new", readerToken, readerToken + ".new"} {
		dir := t.TempDir()
		victim := filepath.Join(dir, "victim")
		if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o644), os.Symlink(victim, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
		if got := tokensIn(t, dir).Role(tokenOf(t, filepath.Join(dir, adminToken))); got != Admin {
			t.Errorf("%s is a link: the token's role is %v", name, got)
		}
		if text := tokenOf(t, victim); text != "precious" {
			t.Errorf("%s is a link: what it leads to is %q", name, text)
		}
	}
}
