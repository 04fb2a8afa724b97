// SPDX-License-Identifier: Apache-2.0

package bulk

// Interned makes equal texts share memory: many entries refer to few values. The zero value knows none.
type Interned struct{ known map[string]string }

// Share replaces texts by equal ones that are known.
func (i *Interned) Share(texts []string) {
	const most = 4096
	if i.known == nil || len(i.known) > most {
		i.known = make(map[string]string)
	}
	for at, s := range texts {
		known, ok := i.known[s]
		if !ok {
			known = s
			i.known[s] = s
		}
		texts[at] = known
	}
}
