// SPDX-License-Identifier: Apache-2.0

// Package series reads maps whose types are only known from their BTF, as JSON and as OpenMetrics. A hash of 100,000 entries
// takes some ten milliseconds: types are turned into functions once, and entries are read in batches.
package series
