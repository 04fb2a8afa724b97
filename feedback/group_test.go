// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// defaults is the configuration that the model's defaults make, with the method HTTP.
func defaults() *Config {
	return &Config{
		Method: HTTP, Interval: 1000, Timeout: 500, Misses: 3, Gain: 10, Scale: 10, Smoothing: 50, Threshold: 5,
		Ratios: Ratios{CPU: 60, Load: 30, Memory: 10}, Processes: 1000, SNMP: SNMPConfig{Community: "public"}, HTTP: HTTPConfig{Path: "/"},
	}
}

func TestAStepIsMonotoneAndBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		a, target, weight := random.Float64()*5, random.Float64(), random.Float64()*100
		x, y := random.Float64()*2, random.Float64()*2
		if x > y {
			x, y = y, x
		}
		less, more := Weigh(weight, a, target, x), Weigh(weight, a, target, y)
		if less < more {
			t.Fatalf("target %v: load %v gives %v, load %v gives %v", target, x, less, y, more)
		}
		if is := Weigh(weight, a, target, target); is != weight {
			t.Fatalf("at the target, %v becomes %v", weight, is)
		}
		if x < target && less <= weight && a > 0 || y > target && more >= weight && a > 0 {
			t.Fatalf("target %v, weight %v: load %v gives %v, load %v gives %v", target, weight, x, less, y, more)
		}
	}
	// Published: weight + A × cbrt(target − load), wherever the difference is not small.
	if is, want := Weigh(10, 5, 0.95, 0.45), 10+5*math.Cbrt(0.5); is != want {
		t.Errorf("%v, want %v", is, want)
	}
	if below, above := root(knee-1e-12), root(knee); math.Abs(below-above) > 1e-9 {
		t.Errorf("at the knee, the root jumps from %v to %v", below, above)
	}
}

func TestWeightsStayWithinTheScale(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for n := range 200 {
		conf := defaults()
		conf.Scale, conf.Gain, conf.Threshold = uint8(1+random.IntN(100)), uint16(1+random.IntN(500)), uint8(random.IntN(50))
		conf.Target = Target(random.IntN(101))
		g, now := NewGroup[int](conf), time.Unix(0, 0)
		bases := map[int]uint32{}
		for range 100 {
			k := random.IntN(8)
			switch random.IntN(8) {
			case 0:
				bases[k] = 1 + random.Uint32N(65535)
				g.Set(k, bases[k])
			case 1:
				g.Adopt(k, random.Float64()*1e6)
			case 2:
				g.Answer(k, Reading{}, errors.New("refused"), now)
			case 3:
				g.Remove(k)
				delete(bases, k)
			case 4:
				conf.Scale = uint8(1 + random.IntN(100))
				g.Configure(conf)
			default:
				for k := range bases {
					g.Answer(k, Reading{Load: random.Float64() * 3}, nil, now)
				}
				now = now.Add(time.Second)
				g.Step(now)
			}
			for k, base := range bases {
				weight, ok := g.Weight(k)
				units, _, _ := g.Units(k, 65535)
				const slack = 1 + 1e-9
				least, most := float64(base)/float64(conf.Scale)/slack, float64(base)*float64(conf.Scale)*slack
				if !ok || weight < least || weight > most || units < 1 || units > 65535 {
					t.Fatalf("run %d: server with weight %d has %v (%d units), want %v to %v", n, base, weight, units, least, most)
				}
			}
		}
	}
}

// cluster are servers whose load follows their share of the work, as far as new sessions replace old ones.
type cluster struct {
	capacity, load []float64
	work           float64 // sum of the work of all servers
	lasting        float64 // part of the sessions that lasts to the next interval
}

// run moves the sessions of an interval.
func (c *cluster) run(g *Group[int]) {
	var sum float64
	weights := make([]float64, len(c.load))
	for i := range weights {
		weights[i], _ = g.Weight(i)
		sum += weights[i]
	}
	for i := range c.load {
		c.load[i] = c.lasting*c.load[i] + (1-c.lasting)*c.work*weights[i]/sum/c.capacity[i]
	}
}

func (c *cluster) spread() float64 {
	least, most := math.Inf(1), 0.0
	for _, l := range c.load {
		least, most = min(least, l), max(most, l)
	}
	return most - least
}

// TestClustersConverge: servers whose capacities differ by up to 5 get the same load, and then weights rest.
func TestClustersConverge(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	worst := 0
	for n := range 300 {
		c := &cluster{lasting: random.Float64() * 0.8}
		var total float64
		conf := defaults()
		g := NewGroup[int](conf)
		for i := range 2 + random.IntN(20) {
			c.capacity = append(c.capacity, 1+4*random.Float64())
			total += c.capacity[i]
			g.Set(i, 1)
		}
		c.load = make([]float64, len(c.capacity))
		c.work = total * (0.2 + 0.7*random.Float64())
		now, late, rests := time.Unix(0, 0), 0, 0
		const steps = 400
		for step := range steps {
			c.run(g)
			for i, l := range c.load {
				noise := (random.Float64() - 0.5) * 0.01
				g.Answer(i, Reading{Load: l + noise}, nil, now)
			}
			now = now.Add(time.Second)
			if g.Step(now) {
				rests = step + 1
				if step >= steps/2 {
					late++
				}
			}
		}
		mean := c.work / total
		if limit := 2*max(idle, mean*0.05) + 0.03; c.spread() > limit {
			t.Errorf("cluster %d of %d servers: loads around %.2f differ by %.3f, want at most %.3f", n, len(c.load), mean, c.spread(), limit)
		}
		if late > 10 { // one interval in 20
			t.Errorf("cluster %d of %d servers: weights change %d times in the second half, at last in step %d", n, len(c.load), late, rests)
		}
		worst = max(worst, late)
	}
	t.Logf("in the last 200 of 400 intervals, the weights of a cluster change %d times at most", worst)
}

// TestOverloadIsShared: with a fixed target as published, a server above it loses work to the others.
func TestOverloadIsShared(t *testing.T) {
	conf := defaults()
	conf.Target = 95
	g, now := NewGroup[int](conf), time.Unix(0, 0)
	c := &cluster{capacity: []float64{1, 4}, load: make([]float64, 2), work: 3}
	g.Set(0, 10)
	g.Set(1, 10)
	for range 200 {
		c.run(g)
		for i, l := range c.load {
			g.Answer(i, Reading{Load: l}, nil, now)
		}
		now = now.Add(time.Second)
		g.Step(now)
	}
	if c.load[0] > 1.05 || c.load[1] < 0.4 {
		t.Errorf("loads are %v, and the first one began at 1.5", c.load)
	}
}

func TestAnAgentThatMissesPollsIsUnreachable(t *testing.T) {
	conf := defaults()
	conf.Smoothing, conf.Threshold = 0, 0
	g, now := NewGroup[string](conf), time.Unix(1000, 0)
	g.Set("a", 10)
	g.Set("b", 10)
	step := func() bool { now = now.Add(time.Second); return g.Step(now) }
	weights := func() string {
		a, _ := g.Weight("a")
		b, _ := g.Weight("b")
		return fmt.Sprintf("%.2f %.2f", a, b)
	}
	for range 3 {
		g.Answer("a", Reading{Load: 0.9}, nil, now)
		g.Answer("b", Reading{Load: 0.1}, nil, now)
		step()
	}
	moved := weights()
	if moved == "10.00 10.00" {
		t.Fatal("weights did not follow")
	}
	gone := errors.New("no answer in time")
	for range 2 {
		if c := g.Answer("a", Reading{}, gone, now); c != nil {
			t.Fatalf("%+v after less than 3 misses", c)
		}
		step()
	}
	if is := weights(); is != moved {
		t.Errorf("two misses changed weights from %s to %s", moved, is)
	}
	if c := g.Answer("a", Reading{}, gone, now); c == nil || c.State != Unreachable || c.Error != "no answer in time" {
		t.Fatalf("%+v after 3 misses", c)
	}
	if !g.Step(now) {
		t.Error("the configured weight waits for the next interval")
	}
	if a, _ := g.Weight("a"); a != 10 {
		t.Errorf("weight %v, want 10", a)
	}
	if v := g.View("a"); v.State != Unreachable || v.LastError == "" || v.Load != "" || v.Weight != "10.00" || v.LastAnswer != "1970-01-01T00:16:42Z" {
		t.Errorf("%+v", v)
	}
	if c := g.Answer("a", Reading{}, gone, now); c != nil {
		t.Errorf("said twice: %+v", c)
	}
	if c := g.Answer("a", Reading{Load: 0.9}, nil, now); c == nil || c.State != Following {
		t.Errorf("%+v after an answer", c)
	}
	step()
	if a, _ := g.Weight("a"); a >= 10 {
		t.Errorf("weight %v after an answer with a high load", a)
	}
	var n Counts
	if g.Count(&n); n != (Counts{Following: 2}) {
		t.Errorf("%+v", n)
	}
}

func TestSmallChangesAreNotPassedOn(t *testing.T) {
	conf := defaults()
	conf.Smoothing, conf.Threshold = 0, 20
	g, now := NewGroup[string](conf), time.Unix(0, 0)
	g.Set("a", 10)
	g.Set("b", 10)
	changes := 0
	for range 10 {
		g.Answer("a", Reading{Load: 0.9}, nil, now)
		g.Answer("b", Reading{Load: 0.1}, nil, now)
		if now = now.Add(time.Second); g.Step(now) {
			changes++
		}
	}
	if changes == 0 || changes > 6 {
		t.Errorf("%d changes in 10 intervals with a threshold of 20 %%", changes)
	}
	if g.Answer("a", Reading{Load: 0.5}, nil, now); g.Step(now) {
		t.Error("a step before the interval is over")
	}
	conf.Threshold = 5
	g = NewGroup[string](conf)
	g.Set("a", 10)
	g.Set("b", 10)
	for range 100 {
		g.Answer("a", Reading{Load: 0.51}, nil, now)
		g.Answer("b", Reading{Load: 0.49}, nil, now)
		if now = now.Add(time.Second); g.Step(now) {
			t.Fatal("loads that are nearly the same change weights")
		}
	}
}

func TestLoadsAreSmoothed(t *testing.T) {
	conf := defaults()
	conf.Smoothing = 80
	g := NewGroup[string](conf)
	g.Set("a", 1)
	for _, tt := range []struct {
		load float64
		want string
	}{{0.5, "0.50"}, {1, "0.60"}, {1, "0.68"}, {9, "0.94"}} {
		g.Answer("a", Reading{Load: tt.load}, nil, time.Unix(0, 0))
		if is := g.View("a").Load; is != tt.want {
			t.Errorf("after %v, the load is %s, want %s", tt.load, is, tt.want)
		}
	}
	if g.Answer("a", Reading{Pending: true}, nil, time.Unix(0, 0)); g.View("a").Load != "0.94" {
		t.Error("an answer without a load changed it")
	}
}

func TestAgentsSayTheWeight(t *testing.T) {
	conf := defaults()
	conf.Method, conf.Port = Agent, 9707
	g, now := NewGroup[string](conf), time.Unix(0, 0)
	g.Set("a", 40)
	for _, tt := range []struct {
		line   string
		weight float64
		why    string
	}{
		{"75%", 30, ""},
		{"76%", 30, ""}, // less than the threshold
		{"up", 30, ""},
		{"drain", 0, "the agent says drain"},
		{"50%", 0, "the agent says drain"}, // until it says ready
		{"ready", 20, ""},
		{"down # disk full", 0, "the agent says down: disk full"},
		{"up 10000%", 400, ""},
		{"maint", 0, "the agent says maint"},
		{"ready 1%", 0.4, ""},
		{"0%", 0, ""},
	} {
		says, err := ParseAgent(tt.line)
		if err != nil {
			t.Fatal(err)
		}
		g.Answer("a", Reading{Says: says}, nil, now)
		now = now.Add(time.Second)
		g.Step(now)
		units, unwilling, ok := g.Units("a", 1<<30)
		if want := uint32(tt.weight * 100); !ok || unwilling != (tt.weight == 0) || units != want && !unwilling || unwilling && units != 4000 {
			t.Errorf("%q: %d units, %v, %v", tt.line, units, unwilling, ok)
		}
		if is, _ := g.Weight("a"); is != tt.weight || g.View("a").LastError != tt.why {
			t.Errorf("%q: weight %v, %q, want %v, %q", tt.line, is, g.View("a").LastError, tt.weight, tt.why)
		}
	}
}

func TestConfiguredWeightsChange(t *testing.T) {
	g := NewGroup[string](defaults())
	g.Set("a", 10)
	g.Adopt("a", 5)
	g.Set("a", 20)
	if is, _ := g.Weight("a"); is != 10 {
		t.Errorf("half of 20 is %v", is)
	}
	g.Adopt("a", 1e9)
	if is, _ := g.Weight("a"); is != 200 {
		t.Errorf("adopted weight %v, want the limit 200", is)
	}
	if units, unwilling, ok := g.Units("a", 1<<30); units != 20000 || unwilling || !ok {
		t.Errorf("%d units", units)
	}
	if units, _, _ := g.Units("a", 100); units != 100 {
		t.Errorf("%d units of at most 100", units)
	}
	if _, ok := g.Weight("b"); ok || g.View("b") != nil {
		t.Error("a server that is not there has a weight")
	}
}
