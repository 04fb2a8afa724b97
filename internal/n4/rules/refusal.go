// SPDX-License-Identifier: Apache-2.0

package rules

// Why a request is refused, in the terms of the response.

import (
	"fmt"

	"github.com/wmnsk/go-pfcp/ie"
)

// Causes that go-pfcp does not have (TS 29.244 8.2.1).
const (
	CauseAllDynamicAddressesOccupied uint8 = 79
	CauseUnknownPredefinedRule       uint8 = 80
	CauseUnknownApplicationID        uint8 = 81
)

// RefusalError is the error of a request that is not carried out.
type RefusalError struct {
	Cause uint8
	// Offending is the type of the IE that is missing or that has a value that is refused; 0: none.
	Offending uint16
	// Failed is the rule that cannot be created or modified; nil: none.
	Failed *Failed
	Why    string
}

// Failed names a rule: Kind is a Rule ID Type of TS 29.244 8.2.80.
type Failed struct {
	Kind uint8
	ID   uint32
}

// Error returns the cause, and why.
func (r *RefusalError) Error() string {
	text := fmt.Sprintf("cause %d", r.Cause)
	if r.Offending != 0 {
		text += fmt.Sprintf(", IE %d", r.Offending)
	}
	if r.Failed != nil {
		text += fmt.Sprintf(", rule %d of type %d", r.Failed.ID, r.Failed.Kind)
	}
	if r.Why != "" {
		text += ": " + r.Why
	}
	return text
}

// IEs returns those of the response: Cause, Offending IE and Failed Rule ID.
func (r *RefusalError) IEs() []*ie.IE {
	list := []*ie.IE{ie.NewCause(r.Cause)}
	if r.Offending != 0 {
		list = append(list, ie.NewOffendingIE(r.Offending))
	}
	if r.Failed != nil {
		list = append(list, ie.NewFailedRuleID(r.Failed.Kind, r.Failed.ID))
	}
	return list
}

// Missing refuses a message without a mandatory IE.
func Missing(kind uint16) *RefusalError {
	return &RefusalError{Cause: ie.CauseMandatoryIEMissing, Offending: kind}
}

// Incorrect refuses a message with an IE that cannot be decoded.
func Incorrect(kind uint16, why error) *RefusalError {
	return &RefusalError{Cause: ie.CauseMandatoryIEIncorrect, Offending: kind, Why: why.Error()}
}

// conditional refuses a message without an IE that another one requires.
func conditional(kind uint16, why string) *RefusalError {
	return &RefusalError{Cause: ie.CauseConditionalIEMissing, Offending: kind, Why: why}
}

// unsupported refuses what only UP functions with a feature do that this one has not announced.
func unsupported(kind uint16, why string) *RefusalError {
	return &RefusalError{Cause: ie.CauseServiceNotSupported, Offending: kind, Why: why}
}

// failure refuses a rule.
func failure(kind uint8, id uint32, format string, args ...any) *RefusalError {
	return &RefusalError{Cause: ie.CauseRuleCreationModificationFailure, Failed: &Failed{kind, id}, Why: fmt.Sprintf(format, args...)}
}
