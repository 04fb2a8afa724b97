// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"testing"
	"time"
)

func TestTheFactorStretches(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 10 * time.Second, "1": 10 * time.Second, "2.5": 25 * time.Second, "20": 200 * time.Second} {
		f, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		was := factor
		factor = f
		got, slow := Stretch(10*time.Second), Slow()
		factor = was
		if got != want || slow != (want > 10*time.Second) {
			t.Errorf("%q: 10 s become %v, slow: %v; want %v", text, got, slow, want)
		}
	}
}

func TestAWrongFactorIsRefused(t *testing.T) {
	for _, text := range []string{"0.5", "0", "-1", "1001", "fast", "NaN", "Inf"} {
		if f, err := parse(text); err == nil {
			t.Errorf("%q is taken for %v", text, f)
		}
	}
}
