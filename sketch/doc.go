// SPDX-License-Identifier: Apache-2.0

// Package sketch reads the sketches of <pcn/sketch.h>, which programs fill: sums and rates by key, the number of different
// keys, and the heaviest keys, each in memory that does not grow with the number of keys.
package sketch
