// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFamiliesAreFound(t *testing.T) {
	f, err := findFamily("nlctrl") // that of the controller itself
	if err != nil || f.id != 0x10 || f.version != 2 || f.groups["notify"] == 0 {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := findFamily("nosuchfamily"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("%+v, %v", f, err)
	}
}
