// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"hash/fnv"
)

// maxName is the longest name of a network interface.
const maxName = 15

// reserved are invalid names for a port's interface: the kernel has an interface or settings with that name.
var reserved = map[string]bool{"lo": true, "all": true, "default": true}

// InnerName is the name of a port's interface in the namespace: the port's name or, if that is not valid for an
// interface, its beginning and a hash.
func InnerName(port string) string {
	if len(port) <= maxName && !reserved[port] {
		return port
	}
	return hashed(port, port)
}

// OuterName is the name of the outer end: cube-port or, if that is too long, its beginning and a hash.
func OuterName(cube, port string) string {
	name := cube + "-" + port
	if len(name) <= maxName {
		return name
	}
	return hashed(name, cube+":"+port)
}

// otherOuterName is for an outer end whose plain name is taken: by a:b-c, if it is a-b:c, or by another instance.
func otherOuterName(instance, cube, port string) string {
	return hashed(cube+"-"+port, instance+"@"+cube+":"+port)
}

// hashed is the beginning of a text and a hash, at most 15 bytes.
func hashed(text, meant string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(meant)) // never fails
	return fmt.Sprintf("%.6s-%08x", text, sum.Sum32())
}
