// SPDX-License-Identifier: Apache-2.0

// Package directory finds cubes, ports, netdevs and list entries by name: the candidates for a name, and suggestions
// for a wrong one. It reads the Manager and keeps no state.
package directory
