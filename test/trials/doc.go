// SPDX-License-Identifier: Apache-2.0

// Package trials holds every service of the daemon to the kernel that it runs on: what a user may configure is loaded
// before somebody does.
package trials
