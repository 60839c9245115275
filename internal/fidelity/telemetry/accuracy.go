package telemetry

import (
	"math"
	"time"
)

// Accuracy is how well the oracle knew the network, by tier.
type Accuracy struct {
	// Polls is how many periods were compared.
	Polls int
	// Truth is the mean share of the links that others used, Error the mean absolute
	// distance, over each period between two polls, of what the scheduler held in its
	// middle from what was true over it. Staleness, noise, loss and the period itself are
	// in it; the time before the first sample, when nothing is held, is not.
	Truth, Error [4]float64
}

// Add takes in another trial's: means over all polls of both.
func (a *Accuracy) Add(b Accuracy) {
	n := a.Polls + b.Polls
	if n == 0 {
		return
	}
	mix := func(x, y float64) float64 { return (x*float64(a.Polls) + y*float64(b.Polls)) / float64(n) }
	for t := range a.Truth {
		a.Truth[t], a.Error[t] = mix(a.Truth[t], b.Truth[t]), mix(a.Error[t], b.Error[t])
	}
	a.Polls = n
}

// gauge compares each period's truth with the sample that was held during it.
type gauge struct {
	polls      int
	truth, err [4]float64 // sums
	last       time.Duration
	held       [4]float64
	knows      bool     // a sample has been seen
	told       int      // periods that it, or a later one, was held in
	coming     []sample // polled and not seen yet, by time
}

type sample struct {
	seen time.Duration
	said [4]float64
}

// add takes a poll in: truth is that of the period that it ends.
func (g *gauge) add(at, staleness time.Duration, truth, said [4]float64, ok bool) {
	middle := g.last + (at-g.last)/2
	for len(g.coming) > 0 && g.coming[0].seen <= middle {
		g.held, g.coming, g.knows = g.coming[0].said, g.coming[1:], true
	}
	for t := range truth {
		g.truth[t] += truth[t]
		if g.knows {
			g.err[t] += math.Abs(g.held[t] - truth[t])
		}
	}
	g.polls++
	if g.knows {
		g.told++
	}
	g.last = at
	if ok {
		g.coming = append(g.coming, sample{at + staleness, said})
	}
}

func (g *gauge) accuracy() Accuracy {
	a := Accuracy{Polls: g.polls, Truth: g.truth, Error: g.err}
	for t := range a.Truth {
		a.Truth[t] /= float64(max(1, g.polls))
		a.Error[t] /= float64(max(1, g.told))
	}
	return a
}
