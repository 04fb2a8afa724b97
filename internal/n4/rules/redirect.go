// SPDX-License-Identifier: Apache-2.0

package rules

// Redirect Information (TS 29.244 8.2.20). The data plane answers HTTP requests with a URL. It does not change the addresses of
// packets, for which it would have to remember connections.

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"

	"github.com/polycube/polycube/internal/n4/tlv"
	"github.com/polycube/polycube/pdusession"
)

// redirectURL is the Redirect Address Type of a URL.
const redirectURL = 2

// redirection reads the URL. Bytes behind it are ignored, as those of later releases are.
func redirection(i tlv.IE) (string, error) {
	if len(i.Value) < 3 {
		return "", Incorrect(i.Type, fmt.Errorf("%d bytes", len(i.Value)))
	}
	if kind := i.Value[0] & 0xf; kind != redirectURL {
		return "", unsupported(i.Type, fmt.Sprintf("redirect address type %d", kind))
	}
	length, rest := int(binary.BigEndian.Uint16(i.Value[1:])), i.Value[3:]
	if length > len(rest) {
		return "", Incorrect(i.Type, fmt.Errorf("a URL of %d bytes in %d", length, len(rest)))
	}
	text := string(rest[:length])
	if length > pdusession.MaxURL {
		return "", unsupported(i.Type, fmt.Sprintf("a URL of %d bytes, at most %d are possible", length, pdusession.MaxURL))
	}
	// Anything else could end the line that it is in, and begin another one.
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", Incorrect(i.Type, fmt.Errorf("a URL with characters that are not printable ASCII"))
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", Incorrect(i.Type, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", Incorrect(i.Type, fmt.Errorf("%q is no address of a web page", text))
	}
	return text, nil
}
