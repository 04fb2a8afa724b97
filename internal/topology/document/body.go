// SPDX-License-Identifier: Apache-2.0

package document

// The body of a whole cube may contain its name, which is not part of the service's model; the name is removed here,
// before the body goes to the model.

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/polycube/polycube/internal/jsonscan"
	"github.com/polycube/polycube/internal/yang"
)

// TakeName returns the body of a cube without the member name, which must be the cube's. A malformed body is returned
// as it is; the model refuses it.
func TakeName(name string, body []byte) ([]byte, error) {
	// an escape is another spelling of a member's name
	if !bytes.Contains(body, []byte(`"name"`)) && !bytes.Contains(body, []byte(`\u`)) {
		return body, nil
	}
	object, ok := jsonscan.ReadObject(body)
	if !ok {
		return body, nil // the model refuses it
	}
	raw, ok := object.Get("name")
	if !ok {
		return body, nil
	}
	var given string
	if json.Unmarshal(raw, &given) != nil || given != name {
		return nil, &yang.Error{Tag: yang.InvalidValue, Path: "name",
			Message: fmt.Sprintf("name: the body has %.80s, the path has %q", raw, name)}
	}
	return object.Without("name"), nil
}
