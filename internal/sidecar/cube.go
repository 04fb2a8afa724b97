// SPDX-License-Identifier: Apache-2.0

package sidecar

// The life of a program beside its cube, which may come later, go, and come again.

import (
	"context"
	"log/slog"
	"time"
)

// look is how often a program looks for its cube.
const look = time.Second

// Run waits for the daemon and a cube, which find returns, and serves it until it is removed; then it waits for the next one of
// that name. It returns when the context ends, or an error of serve.
func Run[T any](ctx context.Context, log *slog.Logger, cube string, find func(context.Context) (T, error), serve func(context.Context, T) error) error {
	for {
		is, ok := wait(ctx, log, cube, find)
		if !ok {
			return nil
		}
		if err := serve(ctx, is); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// wait returns the cube once it exists; false if the context ends before that.
func wait[T any](ctx context.Context, log *slog.Logger, cube string, find func(context.Context) (T, error)) (T, bool) {
	said := ""
	for {
		is, err := find(ctx)
		if ctx.Err() != nil {
			return is, false
		}
		if err == nil {
			return is, true
		}
		if text := err.Error(); text != said {
			log.Warn("waiting for the cube", "cube", cube, "error", text)
			said = text
		}
		select {
		case <-ctx.Done():
			return is, false
		case <-time.After(look):
		}
	}
}
