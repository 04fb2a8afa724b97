// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/topology"
)

// A client that reads a cube and later writes it must not undo changes that another client made in between. A response
// about a cube carries an entity tag, the revision of its configuration; a change that sends it back as If-Match is
// applied only if the configuration still has that revision. State is not part of the tag: counters would change it
// with each packet.

// newEpoch returns the prefix of the tags of one run of the daemon: revisions start over with each run.
func newEpoch() string {
	var raw [5]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

// tag is the entity tag of a revision.
func (c *Routes) tag(revision uint64) string {
	return `"` + c.epoch + "-" + strconv.FormatUint(revision, 36) + `"`
}

// revisionOf is the reverse; false for a tag of another run, or for anything that is not such a tag.
func (c *Routes) revisionOf(tag string) (uint64, bool) {
	text, ok := strings.CutPrefix(tag, `"`+c.epoch+"-")
	if !ok {
		return 0, false
	}
	text, ok = strings.CutSuffix(text, `"`)
	revision, err := strconv.ParseUint(text, 36, 64)
	return revision, ok && err == nil
}

// tagsOf returns the tags of an If-Match or If-None-Match header; any reports that it is "*".
func tagsOf(h http.Header, name string) (tags []string, any bool, err error) {
	text := strings.TrimSpace(strings.Join(h.Values(name), ","))
	if text == "" || text == "*" {
		return nil, text == "*", nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		bare := strings.TrimPrefix(part, "W/")
		if len(bare) < 2 || bare[0] != '"' || bare[len(bare)-1] != '"' || strings.Contains(bare[1:len(bare)-1], `"`) {
			return nil, false, message.BadPath("%s %s: expected an entity tag in double quotes, as in the ETag header of a response to GET", name, message.Clip(part))
		}
		tags = append(tags, part)
	}
	return tags, false, nil
}

// onlyIf makes a change conditional if the request is.
func (c *Routes) onlyIf(r *http.Request, cubeName string) (*http.Request, error) {
	if message.ReadOnly(r.Method) || r.Header.Get("If-Match") == "" {
		return r, nil
	}
	tags, any, err := tagsOf(r.Header, "If-Match")
	if err != nil {
		return nil, err
	}
	now, err := c.manager.CubeRevision(cubeName)
	if err != nil {
		return nil, message.Stale("If-Match: there is no cube %s", message.Clip(cubeName))
	}
	if any {
		return r.WithContext(topology.IfRevision(r.Context(), cubeName, now)), nil
	}
	for _, tag := range tags {
		if revision, ok := c.revisionOf(tag); ok && revision == now {
			return r.WithContext(topology.IfRevision(r.Context(), cubeName, now)), nil
		}
	}
	return nil, message.Stale("%s changed since it was read, or the daemon was restarted: read it again, its tag is now %s", message.Clip(cubeName), c.tag(now))
}

// answerTag sends the tag together with the data. It reports whether the client already has the current version, which
// is possible only for a node without state: its response is the same for the same tag.
func (c *Routes) answerTag(w http.ResponseWriter, r *http.Request, t *resource.Target) (same bool, err error) {
	if !t.Node.Config() {
		return false, nil
	}
	// Before the read: if the tag is older than the data, a change fails that could have been applied; the other way
	// round, a change would be lost.
	revision, err := c.manager.CubeRevision(t.Cube)
	if err != nil {
		return false, nil //nolint:nilerr // reading the cube reports it
	}
	tag := c.tag(revision)
	w.Header().Set("ETag", tag)
	tags, any, err := tagsOf(r.Header, "If-None-Match")
	if err != nil || !t.Conditional() {
		return false, err
	}
	for _, known := range tags {
		any = any || strings.TrimPrefix(known, "W/") == tag
	}
	return any, nil
}
