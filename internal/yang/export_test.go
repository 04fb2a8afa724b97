// SPDX-License-Identifier: Apache-2.0

package yang

// ParseLocation reads the path out of libyang's description of a place.
func ParseLocation(place string) Path { return parseLocation(place) }
