// SPDX-License-Identifier: Apache-2.0

package classifier

// What a search costs: by these the compiler picks between rules one by one, branches and groups. Nanoseconds, measured
// with the data in the caches (docs/adr/0037); only how they compare matters.

const (
	nsVisit    = 4.5  // a branch
	nsRule     = 1.1  // a rule of a leaf that is passed by
	nsTry      = 5.0  // a rule that is looked at as a whole
	nsTree     = 3.0  // a tree
	nsFastRule = 36   // rules of a leaf that cost no more than nsRule
	nsLoopRule = 3.0  // a rule behind them
	nsGroup    = 25.0 // a group, without columns
	nsColumn   = 3.0  // a column, without its branches
	nsNext     = 15.0 // the next leaf of a sequence
	nsHalf     = 0.75 // of a list, on the average of packets that match none and those that match any
	nsColumns  = 50.0 // a tree that costs more is compared with columns
	// groupTries are rules of a group that are tried before it is searched one by one.
	groupTries = 16
)

// listCost is the cost of rules that are looked at one by one: all of them, as if none matched.
func listCost(rules int) float64 {
	return nsRule*float64(min(rules, nsFastRule)) + nsLoopRule*float64(max(0, rules-nsFastRule))
}

// cost is what a packet pays below a node, on the average over the rules there.
func (n *node) cost() float64 {
	if n.kids == nil {
		if n.group == nil {
			return listCost(len(n.rules))
		}
		return n.group.cost
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

// weight is how many rules the leaves below a node have together.
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
