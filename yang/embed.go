// SPDX-License-Identifier: Apache-2.0

// Package models holds the YANG modules that every service model builds on,
// so that the daemon needs no file at run time. ietf-inet-types and
// ietf-yang-types are not here: libyang brings its own.
package models

import "embed"

// FS holds the modules, one file NAME.yang each at its root.
//
//go:embed *.yang
var FS embed.FS
