// SPDX-License-Identifier: Apache-2.0

// Package services serves the services of the daemon: it lists them, and adds, updates and removes external services.
package services
