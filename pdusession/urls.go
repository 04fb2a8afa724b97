// SPDX-License-Identifier: Apache-2.0

package pdusession

// Where HTTP requests are redirected to: the cube answers them.

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// URLs are those that HTTP requests are redirected to, as the cube sees them.
type URLs struct{ rows *table.Mapped[redirect] }

// NewURLs returns those of a cube.
func NewURLs(env cube.Env) *URLs { return &URLs{table.NewMapped[redirect](env, "redirects")} }

// Close unmaps them.
func (u *URLs) Close() error { return u.rows.Close() }

// Get returns the URL in a row; false if there is none.
func (u *URLs) Get(row uint32) (string, bool) {
	rows, err := u.rows.Values()
	if err != nil || row == 0 || int(row) >= len(rows) {
		return "", false
	}
	is := rows[row] // a copy: another process may write
	if is.Length == 0 || int(is.Length) > len(is.URL) {
		return "", false
	}
	return string(is.URL[:is.Length]), true
}
