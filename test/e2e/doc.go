// SPDX-License-Identifier: Apache-2.0

// Package e2e has no code, only tests: the programs that users run, polycubed and polycubectl from bin/, in network
// namespaces with real packets. What a document, the issue tracker or a model promises is asked of them here from
// outside, as a user would.
package e2e
