// SPDX-License-Identifier: Apache-2.0

package topology

// The origin, form and precondition of a change travel with the request's context: they belong to the request, not to
// the configuration.

import (
	"context"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/history"
)

type originKey struct{}

// WithOrigin notes whose request a context is of.
func WithOrigin(ctx context.Context, o history.Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginOf returns whose request a context is of.
func OriginOf(ctx context.Context) history.Origin {
	o, _ := ctx.Value(originKey{}).(history.Origin)
	return o
}

type wordsKey struct{}

// InWords notes that the bodies of a context were typed in words ([yang.Tree.EditWords]).
func InWords(ctx context.Context) context.Context {
	return context.WithValue(ctx, wordsKey{}, true)
}

func areWords(ctx context.Context) bool {
	words, _ := ctx.Value(wordsKey{}).(bool)
	return words
}

// precondition is what must hold when a change is made.
type precondition struct {
	cube     string
	revision uint64
}

type preconditionKey struct{}

// IfRevision makes the changes of a context conditional: they are refused with [cube.ErrStale] unless the cube's
// configuration is still that of the revision.
func IfRevision(ctx context.Context, name string, revision uint64) context.Context {
	return context.WithValue(ctx, preconditionKey{}, precondition{name, revision})
}

func preconditionOf(ctx context.Context) (precondition, bool) {
	p, ok := ctx.Value(preconditionKey{}).(precondition)
	return p, ok
}

// requested is fn with the request's origin noted, if its precondition holds: nobody else can change the cube any more
// when it runs.
func requested(ctx context.Context, fn func(*editing) error) func(*editing) error {
	return func(t *editing) error {
		if err := t.checkPrecondition(ctx); err != nil {
			return err
		}
		if err := t.checkTrial(ctx); err != nil {
			return err
		}
		t.origins = append(t.origins, OriginOf(ctx))
		return fn(t)
	}
}

func (t *editing) checkPrecondition(ctx context.Context) error {
	want, ok := preconditionOf(ctx)
	if !ok {
		return nil
	}
	rec := t.old.Cubes[want.cube]
	if rec == nil {
		return fmt.Errorf("cube %.80s: %w", want.cube, t.old.Missing(want.cube))
	}
	if rec.Revision != want.revision {
		return fmt.Errorf("%s changed meanwhile, its revision is %d instead of %d: read it again: %w",
			want.cube, rec.Revision, want.revision, cube.ErrStale)
	}
	return nil
}
