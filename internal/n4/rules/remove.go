// SPDX-License-Identifier: Apache-2.0

package rules

// Remove PDR, FAR, QER, URR and BAR. PDRs lose the QERs and URRs that are removed, and FARs their BAR; a FAR that a PDR
// still has cannot be removed.

import (
	"slices"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/tlv"
)

// removed reads an ID and removes the rule that has it.
func removed[T any, ID uint8 | uint16 | uint32](g tlv.Group, kind uint16, size int, rule uint8, list *[]T, of func(*T) ID) (id ID, err error) {
	if err := required(g, kind, size, &id); err != nil {
		return 0, err
	}
	at := slices.IndexFunc(*list, func(r T) bool { return of(&r) == id })
	if at < 0 {
		return 0, failure(rule, uint32(id), "the rule is unknown")
	}
	*list = slices.Delete(*list, at, at+1)
	return id, nil
}

func (e *edit) removePDR(g tlv.Group) error {
	_, err := removed(g, ie.PDRID, 2, ie.RuleIDTypePDR, &e.PDRs, func(r *PDR) uint16 { return r.ID })
	return err
}

func (e *edit) removeFAR(g tlv.Group) error {
	_, err := removed(g, ie.FARID, 4, ie.RuleIDTypeFAR, &e.FARs, func(r *FAR) uint32 { return r.ID })
	return err
}

func (e *edit) removeQER(g tlv.Group) error {
	id, err := removed(g, ie.QERID, 4, ie.RuleIDTypeQER, &e.QERs, func(r *QER) uint32 { return r.ID })
	for p := range e.PDRs {
		e.PDRs[p].QERs = without(e.PDRs[p].QERs, id, err)
	}
	return err
}

func (e *edit) removeURR(g tlv.Group) error {
	id, err := removed(g, ie.URRID, 4, ie.RuleIDTypeURR, &e.URRs, func(r *URR) uint32 { return r.ID })
	for p := range e.PDRs {
		e.PDRs[p].URRs = without(e.PDRs[p].URRs, id, err)
	}
	if err == nil {
		e.change.RemovedURRs = append(e.change.RemovedURRs, id)
	}
	return err
}

func (e *edit) removeBAR(g tlv.Group) error {
	id, err := removed(g, ie.BARID, 1, ie.RuleIDTypeBAR, &e.BARs, func(r *BAR) uint8 { return r.ID })
	for f := range e.FARs {
		if err == nil && e.FARs[f].BAR == id {
			e.FARs[f].BAR = 0
		}
	}
	return err
}

// without returns a copy of a list that lacks an ID; after an error, the list.
func without(list []uint32, id uint32, err error) []uint32 {
	if err != nil || !slices.Contains(list, id) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(n uint32) bool { return n == id })
}
