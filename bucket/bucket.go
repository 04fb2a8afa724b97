// SPDX-License-Identifier: Apache-2.0

// Package bucket makes limits for the token buckets of <pcn/bucket.h>, and does what they do.
package bucket

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"time"

	"github.com/polycube/polycube/cube"
)

// Limit is a rate and a burst: struct pcn_bucket_limit. The zero Limit lets nothing through.
type Limit struct {
	Price uint64 // of a token, in 2^-(8+Shift) ns
	Size  uint64 // price of the burst, in 2^-8 ns
	Shift uint32
	Burst uint32 // tokens
}

// Unlimited lets everything through.
var Unlimited = Limit{Burst: math.MaxUint32}

// Longest is how long it may take at most until an empty bucket is full.
const Longest = 200 * 24 * time.Hour

const (
	fraction = 8 // bits of a time below a nanosecond
	ahead    = int64(time.Second) << fraction
)

// New returns the limit for a number of tokens in a period, and a burst of tokens at once. Tokens are what programs take,
// such as bytes or packets. Errors wrap cube.ErrInvalid.
func New(tokens uint64, period time.Duration, burst uint32) (Limit, error) {
	switch {
	case tokens == 0 || period <= 0:
		return Limit{}, fmt.Errorf("a rate of %d in %s: both must be positive: %w", tokens, period, cube.ErrInvalid)
	case burst == 0:
		return Limit{}, fmt.Errorf("a burst of 0 lets nothing through: %w", cube.ErrInvalid)
	}
	all := new(big.Int).Mul(big.NewInt(int64(period)), big.NewInt(int64(burst)))
	all.Div(all, new(big.Int).SetUint64(tokens))
	if all.Cmp(big.NewInt(int64(Longest))) > 0 {
		return Limit{}, fmt.Errorf("a burst of %d at %d in %s: it must not take longer than %s: %w", burst, tokens, period, Longest, cube.ErrInvalid)
	}
	l := Limit{Burst: burst, Shift: 40}
	for ; ; l.Shift-- { // the most precise price whose product with the burst fits
		price := new(big.Int).Lsh(big.NewInt(int64(period)), fraction+uint(l.Shift))
		price.Add(price, new(big.Int).SetUint64(tokens-1))
		price.Div(price, new(big.Int).SetUint64(tokens))
		if !price.IsUint64() {
			continue
		}
		l.Price = price.Uint64()
		if over, product := bits.Mul64(l.Price, uint64(burst)); over == 0 && product < 1<<63 {
			break
		}
	}
	l.Size = l.cost(burst)
	return l, nil
}

// cost is the price of tokens in 2^-8 ns, rounded up.
func (l Limit) cost(tokens uint32) uint64 {
	return (uint64(tokens)*l.Price + 1<<(l.Shift&63) - 1) >> (l.Shift & 63)
}

// Take takes tokens from a bucket, which programs must not use at the same time, as pcn_bucket_take does; now is the
// monotonic clock of the kernel. It returns false, and changes nothing, if there are not enough.
func (l Limit) Take(bucket *uint64, tokens uint32, now time.Duration) bool {
	if tokens > l.Burst {
		return false
	}
	at := uint64(now) << fraction
	empty := l.emptied(*bucket, at) + l.cost(tokens)
	if int64(at-empty) < 0 {
		return false
	}
	*bucket = empty
	return true
}

// Left returns how many tokens a bucket has.
func (l Limit) Left(bucket uint64, now time.Duration) uint32 {
	at := uint64(now) << fraction
	passed := int64(at - l.emptied(bucket, at))
	switch {
	case passed < 0:
		return 0
	case l.Price == 0 || uint64(passed) >= l.Size:
		return l.Burst
	}
	over, product := bits.Mul64(uint64(passed), 1<<(l.Shift&63))
	if over >= l.Price {
		return l.Burst
	}
	n, _ := bits.Div64(over, product, l.Price)
	return uint32(min(n, uint64(l.Burst)))
}

// Moved returns a bucket that has, with limit to, the tokens that a bucket has with l, but at most the new burst. A bucket
// is a time, of which a higher rate makes more tokens: programs that get a higher rate without this let a burst through.
// Store it by compare-and-swap before programs get the limit.
func (l Limit) Moved(bucket uint64, to Limit, now time.Duration) uint64 {
	return uint64(now)<<fraction - to.cost(min(l.Left(bucket, now), to.Burst))
}

// emptied is since when a bucket has been filling, at most the time of the burst ago.
func (l Limit) emptied(bucket, at uint64) uint64 {
	if passed := int64(at - bucket); bucket == 0 || passed > int64(l.Size) || passed < -ahead {
		return at - l.Size
	}
	return bucket
}
