// SPDX-License-Identifier: Apache-2.0

// Commands about packets: what became of them, and where.

package cli

func packetAliases() map[string]alias {
	return map[string]alias{
		"drops": {
			description: "Show who drops packets and why, now and since when",
			usage:       "drops [show] [CUBE]       (the cube framework has what belongs to none)",
			plan:        planDrops,
		},
	}
}

// planDrops takes the name of the cube without the verb, too.
func planDrops(c command) (plan, error) {
	if c.verb == verbNone && len(c.path) == 2 {
		c.verb = verbShow
	}
	return planShow(c)
}
