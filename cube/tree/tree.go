// SPDX-License-Identifier: Apache-2.0

// Package tree is for state that would take long to encode and decode.
package tree

// State is an answer of cube.Instance.State in the form that the framework needs: objects are map[string]any, lists []any of
// them, and leaves strings, booleans, json.Number, or json.RawMessage, which is written into the answer as it is.
type State map[string]any
