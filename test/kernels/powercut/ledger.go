// SPDX-License-Identifier: Apache-2.0

package powercut

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/polycube/polycube/internal/store"
)

// Writers is the number of goroutines of a machine that commit concurrently. Each has one transaction in progress at a
// time.
const Writers = 4

// Report is one line of JSON from the machine.
type Report struct {
	// Opened is sent once per boot: the contents of the store, as returned by Read. Damage describes inconsistent
	// contents.
	Opened *[Writers]uint64 `json:"opened,omitempty"`
	Damage string           `json:"damage,omitempty"`
	// Writer has the number of its transaction Acked durable.
	Writer int    `json:"writer,omitempty"`
	Acked  uint64 `json:"acked,omitempty"`
	// Error ends the machine's work.
	Error string `json:"error,omitempty"`
}

// Transaction is the nth commit of a writer, starting at 1: two records that contain n, and one that exists for even n
// only. The first sometimes takes several disk blocks.
func Transaction(writer int, n uint64) []store.Record {
	key := func(name string) string { return fmt.Sprintf("writer/%d/%s", writer, name) }
	number := binary.BigEndian.AppendUint64(nil, n)
	fill := bytes.Repeat(number, 1+int(n%7)*int(n%5)*100)
	recs := []store.Record{
		{Key: key("first"), Value: binary.BigEndian.AppendUint32(fill, crc32.ChecksumIEEE(fill))},
		{Key: key("second"), Value: number},
		{Key: key("third")},
	}
	if n%2 == 0 {
		recs[2].Value = number
	}
	return recs
}

// Read finds the last transaction of each writer in a store, 0 for none. The error describes incomplete transactions.
func Read(records []store.Record) (last [Writers]uint64, err error) {
	found := map[string][]byte{}
	for _, r := range records {
		found[r.Key] = r.Value
	}
	for w := range Writers {
		n := uint64(0)
		if v := found[fmt.Sprintf("writer/%d/second", w)]; len(v) == 8 {
			n = binary.BigEndian.Uint64(v)
		}
		last[w] = n
		for _, want := range Transaction(w, n) {
			value, ok := found[want.Key]
			if wanted := n != 0 && want.Value != nil; ok != wanted || ok && !bytes.Equal(value, want.Value) {
				err = errors.Join(err, fmt.Errorf("writer %d: its transaction %d is not whole: %s has %d bytes", w, n, want.Key, len(value)))
			}
			delete(found, want.Key)
		}
	}
	for key := range found {
		err = errors.Join(err, fmt.Errorf("%s was never written", key))
	}
	return last, err
}

// Ledger records acknowledged transactions.
type Ledger struct {
	acked [Writers]uint64
	// Total is the number of acknowledged transactions.
	Total int
	// Extra is the number of transactions found that had not been acknowledged before the power cut.
	Extra int
}

// Acked records an acknowledgement of a machine.
func (l *Ledger) Acked(writer int, n uint64) error {
	if writer < 0 || writer >= Writers || n != l.acked[writer]+1 {
		return fmt.Errorf("writer %d acknowledges %d after %d", writer, n, l.acked)
	}
	l.acked[writer] = n
	l.Total++
	return nil
}

// Opened checks the data that a machine found after booting. Acknowledged transactions must be there; of those in
// progress, one per writer, each may be there or not.
func (l *Ledger) Opened(found [Writers]uint64) error {
	var err error
	for w, n := range found {
		switch acked := l.acked[w]; n {
		case acked:
		case acked + 1:
			l.Extra++
		default:
			err = errors.Join(err, fmt.Errorf("writer %d: transaction %d was acknowledged, and %d was found", w, acked, n))
		}
	}
	l.acked = found
	return err
}
