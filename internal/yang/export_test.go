// SPDX-License-Identifier: Apache-2.0

package yang

import "github.com/polycube/polycube/internal/fault"

// ParseLocation reads the path out of libyang's description of a place.
func ParseLocation(place string) Path { return fault.Location(place) }
