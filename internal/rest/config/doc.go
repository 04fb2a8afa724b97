// SPDX-License-Identifier: Apache-2.0

// Package config serves the configuration as one document, its history, and rollback. Documents are applied one at a
// time.
package config
