// SPDX-License-Identifier: Apache-2.0

// Package help handles OPTIONS requests of the REST API: the possible next words, with their description from the
// model, and the same as a flat list for shell completion.
package help
