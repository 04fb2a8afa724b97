// SPDX-License-Identifier: Apache-2.0

package synflood

// NewIn is for tests whose labs have a namespace of their own.
var NewIn = newIn
