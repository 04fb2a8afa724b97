// SPDX-License-Identifier: Apache-2.0

// Package trials loads every service of the daemon on the current kernel: every configuration that a user may choose is
// loaded before a user does.
package trials
