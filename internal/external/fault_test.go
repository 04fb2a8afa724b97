// SPDX-License-Identifier: Apache-2.0

package external

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/polycube/polycube/cube"
)

func TestAServiceIsToldWhatKindOfErrorItIs(t *testing.T) {
	for err, want := range map[error]codes.Code{
		cube.ErrNotFound:                         codes.NotFound,
		cube.ErrInvalid:                          codes.InvalidArgument,
		fmt.Errorf("a: %w", cube.ErrUnsupported): codes.Unimplemented,
		fmt.Errorf("a: %w", cube.ErrRefused):     codes.InvalidArgument, // the program is the service's own
		errors.New("disk full"):                  codes.Internal,
	} {
		if got := fault(err); codes.Code(got.GetCode()) != want || got.GetMessage() != err.Error() {
			t.Errorf("%v: %s %q, want %s", err, codes.Code(got.GetCode()), got.GetMessage(), want)
		}
	}
}
