// SPDX-License-Identifier: Apache-2.0

// Package resource says what a URL of the REST API names within a cube: the node of the
// model, the methods that it has, the status of a success, and values that can stand for an
// example. It also holds the words that requests about such nodes have in common.
package resource
