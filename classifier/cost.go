// SPDX-License-Identifier: Apache-2.0

package classifier

// Cost model of a search: the compiler uses it to choose between lists, branches and groups. In nanoseconds, measured
// with warm caches (docs/adr/0037); only the ratios matter.

const (
	nsVisit    = 4.5  // a branch
	nsRule     = 1.1  // a rule of a leaf that is skipped
	nsTry      = 5.0  // a rule that is compared completely
	nsTree     = 3.0  // a tree
	nsHash     = 6.0  // a hash table, without its leaves
	nsFastRule = 36   // rules of a leaf that cost only nsRule
	nsLoopRule = 3.0  // a rule after them
	nsGroup    = 25.0 // a group, without columns
	nsColumn   = 3.0  // a column, without its branches
	nsNext     = 15.0 // the next leaf of a sequence
	nsHalf     = 0.75 // of a list, on average over packets that match and packets that do not
	nsColumns  = 50.0 // a more expensive tree is compared with columns
	// groupTries is the number of rules that a group tests before it is searched one by one.
	groupTries = 16
)

// listCost returns the cost of rules that are tested one by one: all of them, as if none matched.
func listCost(rules int) float64 {
	return nsRule*float64(min(rules, nsFastRule)) + nsLoopRule*float64(max(0, rules-nsFastRule))
}

// cost returns the cost of a packet below a node, on average over the rules there.
func (n *node) cost() float64 {
	if n.kids == nil {
		if n.group == nil {
			return listCost(len(n.rules))
		}
		return n.group.cost
	}
	if n.hash != nil {
		sum, rules := 0.0, 0
		for _, k := range n.kids {
			sum += k.cost() * float64(len(k.rules))
			rules += len(k.rules)
		}
		return nsHash + sum/float64(rules)
	}
	if n.sequence {
		sum := 0.0
		for _, k := range n.kids {
			sum += nsNext + k.cost()
		}
		return sum
	}
	sum, weight := 0.0, 0
	for _, k := range n.kids {
		w := 1 + k.weight()
		sum += k.cost() * float64(w)
		weight += w
	}
	return nsVisit + sum/float64(weight)
}

// weight returns the total number of rules in the leaves below a node.
func (n *node) weight() int {
	if n.kids == nil {
		return len(n.rules)
	}
	sum := 0
	for _, k := range n.kids {
		sum += k.weight()
	}
	return sum
}
