// SPDX-License-Identifier: Apache-2.0

// Package services answers for the services of the daemon: it lists them, and adds, updates
// and removes those that run in processes of their own.
package services
