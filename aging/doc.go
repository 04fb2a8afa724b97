// SPDX-License-Identifier: Apache-2.0

// Package aging is for tables whose entries expire: programs write when an entry was last seen, and ignore expired
// ones; the control plane shows an entry's age, and removes it. Times are nanoseconds of the coarse monotonic clock:
// pcn_time_coarse in C, cube.TimeCoarse in Go. Age and Aged are pcn_age and pcn_aged of <pcn/time.h>.
package aging
