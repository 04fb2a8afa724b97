// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"net/http"

	"github.com/polycube/polycube/internal/rest/message"
)

// Unconditional refuses If-Match where it would have no effect, because a client that sends it relies on it.
func Unconditional(r *http.Request) error {
	if message.ReadOnly(r.Method) || r.Header.Get("If-Match") == "" {
		return nil
	}
	return message.BadPath("If-Match is supported on cubes and the nodes in them, on config and on rollback, but not on %s", message.Clip(r.URL.Path))
}
