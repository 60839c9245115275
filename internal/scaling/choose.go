// Package scaling chooses how much the cluster is scaled down, and reports what that changes.
//
// A scenario's rate scale S divides both rates and bytes, so that times stay and the host
// forwards S times fewer packets. The smallest S that the host can carry gives the best
// emulation. What the host can carry is a host.Capacity: packet-hops per second and core,
// measured by `netkvlab doctor --calibrate`, or cautious constants. What the scenario needs is a
// Demand: the flow world runs its trials, which takes milliseconds and whose times do not depend
// on S, and the bytes of its transfers are added to the time windows by which a run's fidelity
// is judged. Choose compares the two. It never chooses a time scale, since that changes results
// (docs/fidelity.md).
//
// Everything here is pure: the same scenario and host give the same choice. Start
// reading here.
package scaling

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	// idleMean is the idle share that the host must keep on average: the flow world has no
	// retransmissions, and other processes need CPU too.
	idleMean = 0.5
	// peakShare of the windows may be busier than peakBusy. A run is degraded when more than 2 % of
	// them are, so half of that is a reserve.
	peakShare, peakBusy = 0.01, 1 - host.BusyIdle
	// besideReserve is how many times as busy as estimated the peaks of fabrics side by side may be:
	// trials drift against each other, so that other peaks coincide than in the estimate, and the
	// same trials at the same scale left 64 % idle in one run and 57 % in another. Four fabrics with
	// an estimate of 81 % for the busiest hundredth were over 90 % busy in up to 5 % of the windows.
	besideReserve = 1.25
	// idleBeside is the idle share from which fabrics side by side may run at the slowest links that
	// they may have, although the estimate of their peaks, a plain sum, does not fit: queues make
	// peaks flatter. Fabrics that left 63 % were busier than peakBusy in no window, those that left
	// 55 % in up to 5 % (though the estimate fitted), those that left 31 % in 11 to 24 %.
	idleBeside = 0.6
	// slowest is the lowest link rate that auto accepts for more fabrics side by side: at this rate
	// the four segments of a burst take three milliseconds (docs/fidelity.md).
	slowest scenarios.BitsPerSecond = 15e6
)

// scales are those that auto chooses from, ten per decade: none is more than 28 % above the one before.
var scales = []float64{
	50, 64, 80, 100, 125, 160, 200, 250, 320, 400, 500, 640, 800, 1000, 1250, 1600, 2000, 2500, 3200, 4000,
	5000, 6400, 8000, 10000, 12500, 16000, 20000, 25000, 32000,
}

// Choice is the scale of a run.
type Choice struct {
	Rate    float64
	Fabrics int
	// Auto says that the scale was chosen here. Then Calibrated says whether by measured steps, and
	// Idle and PeakIdle are the expected idle shares of the host's cores: on average, and in all
	// but the busiest hundredth of the windows.
	Auto           bool
	Calibrated     bool
	Idle, PeakIdle float64
}

// String describes the choice in a sentence, for notes.
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

// Choose returns the smallest scale at which a host carries a cluster's trials on the given
// number of fabrics: half of the host is idle on average, and it also carries bursts. If several
// fabrics would need links below 15 Mbit/s, it stops at 15 Mbit/s if three fifths are idle,
// whatever the estimated peaks. A scale given by the scenario is kept.
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
		limit = slowestScale(c)
	}
	for _, rate := range scales {
		p, err := at(c, rate)
		if err != nil {
			return Choice{}, err
		}
		choice := d.On(h, p)
		if choice.fits() || rate == limit && choice.Idle >= idleBeside {
			choice.Auto = true
			return choice, nil
		}
	}
	return Choice{}, fmt.Errorf("scale.rate: auto: this host (%d cores) carries %s at no scale up to %g: give scale.rate, a smaller topology or less load",
		h.Cores, c.Scenario.Name, scales[len(scales)-1])
}

// Resolve returns the cluster at the scale from Choose.
func Resolve(ctx context.Context, c *trials.Cluster, h host.Capacity, fabrics int) (*trials.Cluster, Choice, error) {
	choice, err := Choose(ctx, c, h, fabrics)
	if err != nil || !choice.Auto {
		return c, choice, err
	}
	c, err = c.Rescale(choice.Rate)
	return c, choice, err
}

// Parallel returns how many fabrics, up to most, may run a cluster's trials side by side: as
// many as the host carries at the given scale or, if the scale is auto, without links below 15
// Mbit/s. One is always allowed.
func Parallel(ctx context.Context, c *trials.Cluster, h host.Capacity, most int) (int, error) {
	most = min(most, len(c.Policies())*len(c.Scenario.Seeds))
	if most < 2 {
		return 1, nil
	}
	p, err := at(c, cmp.Or(c.Scenario.Scale.Rate, slowestScale(c)))
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

// slowestScale is the largest scale that auto may choose for several fabrics.
func slowestScale(c *trials.Cluster) float64 {
	narrowest, _ := host.Grain(c.Plan)
	rate := scales[0]
	for _, s := range scales {
		if float64(narrowest)*c.Plan.Scale.Rate/s >= float64(slowest) {
			rate = s
		}
	}
	return rate
}

// at plans a cluster at a rate scale.
func at(c *trials.Cluster, rate float64) (*fabric.Plan, error) {
	scaled, err := c.At(scenarios.Scale{Rate: rate, Time: c.Scenario.Scale.Time})
	if err != nil {
		return nil, err
	}
	return scaled.Plan, nil
}

// fits reports whether the host has enough idle time, on average and in its busiest windows.
func (c Choice) fits() bool {
	peak := 1 - c.PeakIdle
	if c.Fabrics > 1 {
		peak *= besideReserve
	}
	return c.Idle >= idleMean && peak <= peakBusy
}

// Busy is the share of the host's cores that is needed on average: more than 1 if they are too
// few.
func (c Choice) Busy() float64 { return 1 - c.Idle }

// On estimates the idle share of a host's cores with a plan.
func (d *Demand) On(h host.Capacity, p *fabric.Plan) Choice {
	narrowest, segments := host.Grain(p)
	perCore := h.PerCore(narrowest, segments)
	if segments < 8 {
		perCore *= inRun
	}
	mean, peak := d.busy(perCore, p.Scale.Rate)
	cores := float64(h.Cores)
	return Choice{Rate: p.Scale.Rate, Fabrics: d.fabrics, Calibrated: h.Calibrated, Idle: 1 - mean/cores, PeakIdle: 1 - peak/cores}
}
