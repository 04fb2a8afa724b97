// SPDX-License-Identifier: Apache-2.0

// Package help answers OPTIONS requests of the REST API: which words may come next, with
// what the model says of each, and the same as a flat list for the completion of a shell.
package help
