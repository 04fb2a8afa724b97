// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestOneCubeIsServedAfterTheOther: the program waits for a cube that is not there, says so once, and waits again when it is removed.
func TestOneCubeIsServedAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		answers := []string{"", "", "first", "", "second"}
		var said bytes.Buffer
		var served []string
		err := Run(ctx, slog.New(slog.NewTextHandler(&said, nil)), "c1", func(context.Context) (string, error) {
			is := answers[0]
			answers = answers[1:]
			if is == "" {
				return "", ErrNoCube
			}
			return is, nil
		}, func(_ context.Context, is string) error {
			if served = append(served, is); is == "second" {
				stop()
			}
			return nil
		})
		if err != nil || !slices.Equal(served, []string{"first", "second"}) {
			t.Errorf("%v: served %q", err, served)
		}
		if n := strings.Count(said.String(), "waiting for the cube"); n != 2 {
			t.Errorf("said %d times:\n%s", n, &said)
		}
	})
}

func TestAnErrorOfTheProgramEndsIt(t *testing.T) {
	broken := errors.New("broken")
	find := func(context.Context) (int, error) { return 1, nil }
	err := Run(t.Context(), slog.New(slog.DiscardHandler), "c1", find, func(context.Context, int) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}
