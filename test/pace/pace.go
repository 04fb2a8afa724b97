// SPDX-License-Identifier: Apache-2.0

// Package pace stretches the deadlines of tests on machines that are many times slower than those that the tests were
// written on, such as those of `make test-kernels`, whose CPUs are emulated.
package pace

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Variable is the environment variable with the factor: how many times longer than elsewhere a test waits.
const Variable = "POLYCUBE_TIME_SCALE"

// OwnClockVariable is the environment variable that is set where the machine's clock stands still while its host does something else.
const OwnClockVariable = "POLYCUBE_OWN_CLOCK"

var factor = mustParse(os.Getenv(Variable))

// mustParse exits if the factor is invalid: the deadlines would not be those intended.
func mustParse(text string) float64 {
	f, err := parse(text)
	if err != nil {
		panic(err)
	}
	return f
}

func parse(text string) (float64, error) {
	if text == "" {
		return 1, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 1 && f <= 1000) { // as NaN is neither
		return 0, fmt.Errorf("%s=%s: a number from 1 to 1000 is wanted", Variable, text)
	}
	return f, nil
}

// Stretch returns how long to wait here for something that takes at most d elsewhere.
func Stretch(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }

// Slow reports whether deadlines are stretched on this machine.
func Slow() bool { return factor > 1 }

// OwnClock reports whether the machine's clock stands still while its host does something else, so that tests can compare rates with
// its time.
func OwnClock() bool { return os.Getenv(OwnClockVariable) != "" }
