// SPDX-License-Identifier: Apache-2.0

// Package e2e contains only tests: of the programs that users run, polycubed and polycubectl from bin/, in network
// namespaces with real packets. They verify from outside, as a user would, what a document, the issue tracker or a
// model promises.
package e2e
