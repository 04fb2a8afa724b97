// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/datapath/link"
)

// TestRelinkFailureClasses: an error has one class, whatever it is wrapped in.
func TestRelinkFailureClasses(t *testing.T) {
	for want, err := range map[string]error{
		"too-large": fmt.Errorf("x: %w", link.ErrTooLarge), "resources": unix.ENOMEM, "other": errors.New("x"),
		"verifier": fmt.Errorf("x: %w", &ebpf.VerifierError{Cause: unix.EACCES}),
	} {
		if got := relinkFailure(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
