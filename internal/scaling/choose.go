package scaling

import (
	"context"
	"fmt"
	"math"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	// smallest and largest bound the scales that auto chooses from.
	smallest, largest = 50, 32000
	// idleMean is what the host must have left on average: the flow world knows nothing
	// of retransmissions, and neighbours want to live too.
	idleMean = 0.5
	// peakShare of the windows may be busier than peakBusy. A run is degraded when
	// more than 2 % of them are: half is left for what is not foreseen.
	peakShare, peakBusy = 0.01, 1 - host.BusyIdle
	// idleBeside is what fabrics side by side must leave on average at the slowest links that
	// they may have. Their peaks are flatter than the sum says, which sees no queues: nine
	// that were expected to leave 45 % on average, and nothing at times, left 55 % and were
	// busier than peakBusy in under 1 % of the windows.
	idleBeside = 0.4
	// slowest is what auto lets links become to have more fabrics side by side: the four
	// segments of a burst take three milliseconds there (docs/fidelity.md).
	slowest scenarios.BitsPerSecond = 15e6
)

// mantissas of the scales, in a decade: ten steps, so that none is more than 27 % off.
var mantissas = []float64{1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.4, 8}

// Choice is the scale of a run.
type Choice struct {
	Rate    float64
	Fabrics int
	// Auto: it was chosen here. Then Calibrated says by what, and Idle and PeakIdle what the host is
	// expected to have left, as shares of its cores: on average, and in all but the
	// busiest hundredth of the windows.
	Auto           bool
	Calibrated     bool
	Idle, PeakIdle float64
}

// String is the choice in a sentence, for notes.
func (c Choice) String() string {
	by := "cautious constants"
	if c.Calibrated {
		by = "this host's calibration"
	}
	beside := ""
	if c.Fabrics > 1 {
		beside = fmt.Sprintf(" for %d fabrics side by side", c.Fabrics)
	}
	return fmt.Sprintf("scale.rate: auto chose %g%s by %s: %.0f%% idle expected on average, %.0f%% in the busiest hundredth of the time",
		c.Rate, beside, by, 100*c.Idle, 100*max(0, c.PeakIdle))
}

// Choose gives the smallest scale at which a host carries so many of a cluster's
// trials side by side: half of it idle on average, and bursts too. Where only links under
// 15 Mbit/s would do for several fabrics, it stops at those if two fifths are idle. A scale
// that the scenario gives is kept.
func Choose(ctx context.Context, c *trials.Cluster, h host.Capacity, fabrics int) (Choice, error) {
	if rate := c.Scenario.Scale.Rate; rate > 0 {
		return Choice{Rate: rate, Fabrics: fabrics}, nil
	}
	d, err := Expect(ctx, c, fabrics)
	if err != nil {
		return Choice{}, err
	}
	limit := math.Inf(1)
	if fabrics > 1 {
		p, err := slowestPlan(c)
		if err != nil {
			return Choice{}, err
		}
		limit = p.Scale.Rate
	}
	for rate := range scales() {
		p, err := at(c, rate)
		if err != nil {
			return Choice{}, err
		}
		choice := d.On(h, p)
		if choice.fits() || rate == limit && choice.Idle >= idleBeside {
			choice.Auto, choice.Fabrics = true, fabrics
			return choice, nil
		}
	}
	return Choice{}, fmt.Errorf("scale.rate: auto: this host (%d cores) carries %s at no scale up to %d: give scale.rate, a smaller topology or less load",
		h.Cores, c.Scenario.Name, largest)
}

// Resolve is the cluster at the scale that Choose gives.
func Resolve(ctx context.Context, c *trials.Cluster, h host.Capacity, fabrics int) (*trials.Cluster, Choice, error) {
	choice, err := Choose(ctx, c, h, fabrics)
	if err != nil || !choice.Auto {
		return c, choice, err
	}
	c, err = c.Rescale(choice.Rate)
	return c, choice, err
}

// Parallel is how many fabrics may run a cluster's trials side by side, at most
// `most`: as many as the host carries at the given scale, or, where the scale is auto,
// while no link becomes slower than 15 Mbit/s. One is always allowed.
func Parallel(ctx context.Context, c *trials.Cluster, h host.Capacity, most int) (int, error) {
	most = min(most, len(c.Policies())*len(c.Scenario.Seeds))
	if most < 2 {
		return 1, nil
	}
	p, err := slowestPlan(c)
	if err != nil {
		return 0, err
	}
	l, err := foresee(ctx, c, most)
	if err != nil {
		return 0, err
	}
	for n := most; n > 1; n-- {
		if choice := l.sideBySide(n).On(h, p); choice.fits() || c.Scenario.Scale.Rate == 0 && choice.Idle >= idleBeside {
			return n, nil
		}
	}
	return 1, nil
}

// slowestPlan is a scenario's fabric at its own scale, or at the largest that auto may
// choose so that several fabrics fit.
func slowestPlan(c *trials.Cluster) (*fabric.Plan, error) {
	rate := c.Scenario.Scale.Rate
	if rate == 0 {
		p, err := at(c, 1)
		if err != nil {
			return nil, err
		}
		narrowest, _ := host.Grain(p)
		rate = smallest
		for r := range scales() {
			if float64(narrowest)/r >= float64(slowest) {
				rate = r
			}
		}
	}
	return at(c, rate)
}

// at plans a cluster at a rate scale.
func at(c *trials.Cluster, rate float64) (*fabric.Plan, error) {
	scaled, err := c.At(scenarios.Scale{Rate: rate, Time: c.Scenario.Scale.Time})
	if err != nil {
		return nil, err
	}
	return scaled.Plan, nil
}

// fits says that the host has enough left, on average and in its busiest windows.
func (c Choice) fits() bool { return c.Idle >= idleMean && 1-c.PeakIdle <= peakBusy }

// Busy is how much of the host's cores is needed on average: more than 1 where they do
// not suffice.
func (c Choice) Busy() float64 { return 1 - c.Idle }

// On tells what a host would have left of its cores with a plan.
func (d *Demand) On(h host.Capacity, p *fabric.Plan) Choice {
	narrowest, segments := host.Grain(p)
	perCore := h.PerCore(narrowest, segments)
	if segments < 8 {
		perCore *= eased
	}
	if d.agents > crowd { // in one fabric or in several
		perCore *= crowded
	}
	mean, peak := d.busy(perCore, p.Scale.Rate)
	cores := float64(h.Cores)
	return Choice{Rate: p.Scale.Rate, Calibrated: h.Calibrated, Idle: 1 - mean/cores, PeakIdle: 1 - peak/cores}
}

// scales yields those that auto chooses from, from the smallest on.
func scales() func(yield func(float64) bool) {
	return func(yield func(float64) bool) {
		for decade := 10.0; ; decade *= 10 {
			for _, m := range mantissas {
				s := math.Round(decade * m)
				if s > largest {
					return
				}
				if s >= smallest && !yield(s) {
					return
				}
			}
		}
	}
}
