// SPDX-License-Identifier: Apache-2.0

// Package fates gives the programs of every service that ships frames that nobody meant to send, and wants to be told
// what became of each one: forwarded, or ended for a reason that the cube or the framework names. A service that ships
// without a setup here fails the tests.
package fates
