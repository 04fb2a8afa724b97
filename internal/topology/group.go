// SPDX-License-Identifier: Apache-2.0

package topology

// Changes that wait for the writer's token at the same time are made together: one relink, one write to disk. What does
// not work together is made one by one, so nobody sees a difference but in speed.

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// maxGroup bounds the changes that are made together, and so what each may have to wait for.
const maxGroup = 64

// waiting is a change on its way.
type waiting struct {
	ctx context.Context
	fn  func(*editing) error
	// cubes are those that the change looks at.
	cubes []string
	// single tells that the change is made by itself: it is on trial.
	single bool
	// alone tells that no other change of the group may touch them: the change decides by what was there before.
	alone bool
	done  chan error
}

// queue holds what waits.
type queue struct {
	mu   sync.Mutex
	list []*waiting
}

func (q *queue) add(w *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, w)
}

// remove takes a change back; false if it is being made.
func (q *queue) remove(w *waiting) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.list, w)
	if i < 0 {
		return false
	}
	q.list = slices.Delete(q.list, i, i+1)
	return true
}

// take removes the first change and those behind it that can be made together with it.
func (q *queue) take() []*waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	var group, rest []*waiting
	taken := map[string]bool{} // by whether the change that has the cube is alone with it
	for _, w := range q.list {
		fits := len(group) < maxGroup && (len(group) == 0 || !w.single && !group[0].single) && !slices.ContainsFunc(w.cubes, func(c string) bool {
			alone, there := taken[c]
			return there && (alone || w.alone)
		})
		if !fits {
			rest = append(rest, w)
			for _, c := range w.cubes {
				taken[c] = true // what comes later stays behind it
			}
			continue
		}
		group = append(group, w)
		for _, c := range w.cubes {
			taken[c] = taken[c] || w.alone
		}
	}
	q.list = rest
	return group
}

// together runs a change in a transaction, with others that wait. fn may run twice, and must do nothing but edit.
func (w *writer) together(ctx context.Context, cubes []string, alone bool, fn func(*editing) error) error {
	if p, ok := preconditionOf(ctx); ok {
		alone = true
		if !slices.Contains(cubes, p.cube) {
			cubes = append(slices.Clone(cubes), p.cube)
		}
	}
	one := &waiting{ctx: ctx, fn: requested(ctx, fn), cubes: cubes, alone: alone, single: trialLength(ctx) > 0, done: make(chan error, 1)}
	w.queue.add(one)
	for {
		select {
		case err := <-one.done:
			if err == nil {
				w.news.Wait()
			}
			return err
		case <-w.token:
			w.makeGroup()
			w.release()
		case <-ctx.Done():
			if w.queue.remove(one) {
				return fmt.Errorf("wait for another change to end: %w", ctx.Err())
			}
			return <-one.done
		}
	}
}

// makeGroup makes the changes at the head of the queue. The caller has the token.
func (w *writer) makeGroup() {
	group := slices.DeleteFunc(w.queue.take(), func(one *waiting) bool {
		if one.ctx.Err() != nil {
			one.done <- fmt.Errorf("wait for another change to end: %w", one.ctx.Err())
			return true
		}
		return false
	})
	w.tallies.groups.Observe(float64(len(group)))
	if len(group) > 1 && w.one(context.WithoutCancel(group[0].ctx), func(t *editing) error {
		for _, one := range group {
			if err := one.fn(t); err != nil {
				return err
			}
		}
		return nil
	}) == nil {
		for _, one := range group {
			one.done <- nil
		}
		return
	}
	for _, one := range group {
		one.done <- w.one(one.ctx, one.fn)
	}
}
