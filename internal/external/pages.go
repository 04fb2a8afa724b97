// SPDX-License-Identifier: Apache-2.0

package external

// Large state is read in pages. The service does not know the filter of a request, so its pages are filtered here.

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

const (
	// pageScan is how many entries to ask for where a filter keeps some of them.
	pageScan = 1024
	// maxNext is the maximum length of a position.
	maxNext = 512
)

// Page implements cube.Instance.Page.
func (i *instance) Page(ctx context.Context, path []string, q cube.PageQuery) (cube.Page, error) {
	limit := max(1, q.Limit)
	if q.Matches == nil {
		return i.page(ctx, path, q.After, limit)
	}
	for count := max(limit, pageScan); ; {
		all, err := i.page(ctx, path, q.After, count)
		if err != nil {
			return cube.Page{}, err
		}
		kept := cube.Page{Next: all.Next}
		for n, e := range all.Entries {
			if !q.Matches(e) {
				continue
			}
			if len(kept.Entries) == limit { // the position is behind entries for which there is no room
				count = n
				break
			}
			kept.Entries = append(kept.Entries, e)
		}
		if count >= len(all.Entries) || len(kept.Entries) < limit {
			return kept, nil
		}
	}
}

// page requests a page. An invalid response degrades the cube.
func (i *instance) page(ctx context.Context, path []string, after string, limit int) (cube.Page, error) {
	var answer *pb.PageResponse
	err := i.call(ctx, "Page", stateTime, func(ctx context.Context) (err error) {
		answer, err = i.l.client.Page(ctx, &pb.PageRequest{Cube: i.handle, Path: path, After: after, Limit: uint32(limit)})
		return err
	})
	if err != nil {
		return cube.Page{}, err
	}
	page, err := checkPage(answer, after, limit)
	if err != nil {
		err = fmt.Errorf("service %s, Page: %w", i.l.reg.Name, err)
		i.env.Degrade(err.Error())
	}
	return page, err
}

// checkPage checks a page. One that does not get on would be read forever.
func checkPage(answer *pb.PageResponse, after string, limit int) (cube.Page, error) {
	next := answer.GetNext()
	switch {
	case len(answer.GetEntries()) > limit:
		return cube.Page{}, invalid("the page has %d entries, the limit is %d", len(answer.GetEntries()), limit)
	case len(next) > maxNext || strings.ContainsFunc(next, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return cube.Page{}, invalid("the position after the page is not up to %d bytes of text without blanks", maxNext)
	case next != "" && next == after:
		return cube.Page{}, invalid("the position after the page is the one before it")
	}
	page := cube.Page{Next: next, Entries: make([]json.RawMessage, 0, len(answer.GetEntries()))}
	size := 0
	for _, raw := range answer.GetEntries() {
		if size += len(raw); size > maxDocument {
			return cube.Page{}, invalid("the page has more than %d bytes", maxDocument)
		}
		entry, err := object("an entry of the page", raw)
		if err != nil {
			return cube.Page{}, err
		}
		if entry == nil {
			return cube.Page{}, invalid("an entry of the page is empty")
		}
		page.Entries = append(page.Entries, entry)
	}
	return page, nil
}
