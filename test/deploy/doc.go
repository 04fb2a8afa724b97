// SPDX-License-Identifier: Apache-2.0

// Package deploy tests what make install puts on a machine: the files, and the unit under a systemd that boots in
// namespaces of its own.
package deploy
