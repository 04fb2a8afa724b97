// SPDX-License-Identifier: Apache-2.0

// Package output holds responses and bodies as ordered values, reads them from JSON and YAML, and prints them as text,
// tables, JSON and YAML. It knows no command and no daemon.
package output
