// SPDX-License-Identifier: Apache-2.0

package confine

// Each process of a service has a unique user while it runs: services have no more access to each other than
// strangers. The user needs no name and leaves no file behind, so a number is enough.

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// The numbers are between those of systemd for users of containers and for dynamic users, which nothing else
// allocates.
const (
	firstUser = 60600
	lastUser  = 61183
)

// usersDir is where all daemons of the machine lock the numbers in use.
const usersDir = "/run/polycube/users"

// reservedUser is a user reserved for one process until it is released.
type reservedUser struct {
	id   int
	lock *os.File
}

func (u *reservedUser) release() {
	// The file is removed before the lock is released: a process that waits for the lock then finds that it is not the
	// file in the directory.
	_ = os.Remove(u.lock.Name())
	_ = u.lock.Close()
}

// reserveUser takes the first unused number.
func reserveUser() (*reservedUser, error) {
	if err := os.MkdirAll(usersDir, 0o755); err != nil {
		return nil, fmt.Errorf("create %s: %w", usersDir, err)
	}
	for id := firstUser; id <= lastUser; id++ {
		lock, err := lockUser(filepath.Join(usersDir, strconv.Itoa(id)))
		if err != nil {
			return nil, err
		}
		if lock == nil {
			continue
		}
		claimed := &reservedUser{id: id, lock: lock}
		free, err := unused(id)
		if err != nil {
			claimed.release()
			return nil, err
		}
		if free {
			return claimed, nil
		}
		claimed.release()
	}
	return nil, fmt.Errorf("all users for services (%d to %d) are in use: %w", firstUser, lastUser, unix.EAGAIN)
}

// lockUser locks a file for as long as it is open; nil if another process has locked it.
func lockUser(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("reserve a user: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		var mine, there unix.Stat_t
		if unix.Fstat(int(f.Fd()), &mine) == nil && unix.Lstat(path, &there) == nil && mine.Ino == there.Ino {
			return f, nil
		}
		err = unix.EWOULDBLOCK // its last owner has just removed it
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("reserve a user: %w", err)
}

// unused reports whether a number is neither a user of the machine nor that of a process.
func unused(id int) (bool, error) {
	if _, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return false, nil
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return false, fmt.Errorf("look for processes of user %d: %w", id, err)
	}
	for _, p := range processes {
		var st unix.Stat_t
		if _, err := strconv.Atoi(p.Name()); err != nil || unix.Stat("/proc/"+p.Name(), &st) != nil {
			continue
		}
		if int(st.Uid) == id {
			return false, nil
		}
	}
	return true, nil
}
