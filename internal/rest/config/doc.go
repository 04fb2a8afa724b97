// SPDX-License-Identifier: Apache-2.0

// Package config answers for the configuration as one document, for its history and for the
// way back. Documents are applied one at a time.
package config
