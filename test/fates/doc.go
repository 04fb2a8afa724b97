// SPDX-License-Identifier: Apache-2.0

// Package fates sends unexpected frames to the programs of every shipped service, and requires a fate for each one:
// forwarded, or dropped for a reason that the cube or the framework names. A shipped service without a setup here fails
// the tests.
package fates
