// SPDX-License-Identifier: Apache-2.0

// Package deploy tests the files that make install installs, and the unit under a systemd that boots in its own
// namespaces.
package deploy
