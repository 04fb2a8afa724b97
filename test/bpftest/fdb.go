// SPDX-License-Identifier: Apache-2.0

package bpftest

import "github.com/polycube/polycube/fdb"

// EndLeases makes the programs of a bridge see a change of its table by a test.
func (l *Lab) EndLeases(name string) {
	l.t.Helper()
	cache, err := fdb.CacheOf(l.Map(name, "fdb_cache"))
	if err == nil {
		err = cache.EndLeases()
	}
	if err != nil {
		l.t.Fatal(err)
	}
}
