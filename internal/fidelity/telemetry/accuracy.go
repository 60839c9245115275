package telemetry

import (
	"math"
	"time"
)

// Accuracy is how well the oracle knew the network, by tier.
type Accuracy struct {
	// Polls is the number of periods that were compared.
	Polls int
	// Truth is the mean share of the links that others used. Error is the mean absolute difference,
	// per period between two polls, of the value that the scheduler had in its middle from the true
	// value over it. It includes staleness, noise, loss and the period itself, but not the time
	// before the first sample, when there is no value.
	Truth, Error [4]float64
}

// Add includes another trial's accuracy: the means are over all polls of both.
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
	told       int      // periods in which the scheduler had any sample
	coming     []sample // polled and not seen yet, by time
}

type sample struct {
	seen time.Duration
	said [4]float64
}

// add includes a poll; truth is the value over the period that ends with it.
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
