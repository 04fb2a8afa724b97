// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// URLs are hostile input: a list key may contain any byte, including a slash (as %2F), so the path is split before it
// is unescaped, and every limit is checked before any name is looked up.

// BasePath is the prefix of every resource except /metrics.
const BasePath = "/polycube/v1"

// Limits of a URL's path.
const (
	maxPathBytes = 8 << 10
	maxSegments  = 64
	maxNameBytes = 255
	maxKeyBytes  = 1024
)

// SplitPath returns the decoded segments after the base path. escaped is the path as received. A trailing slash is
// optional.
func SplitPath(escaped string) ([]string, error) {
	if len(escaped) > maxPathBytes {
		return nil, &Error{Status: http.StatusRequestURITooLong, Tag: TagTooBig,
			Message: fmt.Sprintf("the path has %d bytes, the limit is %d", len(escaped), maxPathBytes)}
	}
	rest, ok := strings.CutPrefix(escaped, BasePath)
	if !ok || (rest != "" && rest[0] != '/') {
		return nil, &Error{Status: http.StatusNotFound, Tag: TagBadElement,
			Message: fmt.Sprintf("no resource %s: the API is under %s/", Clip(escaped), BasePath)}
	}
	if rest = strings.TrimPrefix(rest, "/"); rest == "" {
		return nil, nil
	}
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	if len(parts) > maxSegments {
		return nil, BadPath("the path has %d segments, the limit is %d", len(parts), maxSegments)
	}
	for i, p := range parts {
		limit := maxKeyBytes
		if i < 2 {
			limit = maxNameBytes
		}
		s, err := decodeSegment(p, limit)
		if err != nil {
			return nil, err
		}
		parts[i] = s
	}
	return parts, nil
}

// decodeSegment percent-decodes one segment and refuses anything that cannot be a name or key.
func decodeSegment(p string, limit int) (string, error) {
	s, err := url.PathUnescape(p)
	switch {
	case err != nil:
		return "", BadPath("path segment %s: invalid percent-encoding", Clip(p))
	case s == "":
		return "", BadPath("the path has an empty segment (two slashes in a row)")
	case len(s) > limit:
		return "", BadPath("path segment %s has %d bytes, the limit is %d", Clip(s), len(s), limit)
	case !utf8.ValidString(s):
		return "", BadPath("path segment %s is not UTF-8", Clip(p))
	case strings.IndexByte(s, 0) >= 0:
		return "", BadPath("path segment %s contains a NUL byte", Clip(p))
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "." || part == ".." {
			return "", BadPath("path segment %s: %q is not a valid name", Clip(s), part)
		}
	}
	return s, nil
}

// JoinPath is the reverse of SplitPath, with the trailing slash that clients expect.
func JoinPath(segments ...string) string {
	var b strings.Builder
	b.WriteString(BasePath)
	b.WriteByte('/')
	for _, s := range segments {
		b.WriteString(url.PathEscape(s))
		b.WriteByte('/')
	}
	return b.String()
}

// Clip quotes untrusted text for a message and limits its length.
func Clip(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(s[:most], ""))
	}
	return fmt.Sprintf("%q", s)
}
