// Package tune finds the weights of cla* by a grid search in the flow world.
//
// CLA's score is cacheWeight x hit - loadWeight x load, so only the ratio of the two weights
// matters. The grid is over that ratio, from cache only to load only. As in the NetKV paper, it
// is searched on seeds, and on a slice of a trace, that the scenario itself does not use:
// measuring a policy on the data that it was tuned on would favour it. Equal scenarios give
// equal weights.
package tune

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// firstSeed is the first seed for tuning, far from the seeds that users normally choose.
const firstSeed = 1_000_001

// Options choose the metric and the size of the search.
type Options struct {
	Metric string // minimised (or maximised, if more is better); default ttft_mean
	Seeds  int    // the number of seeds, none of them the scenario's; default 5
	Jobs   int    // the number of trials at once; 0 means one per CPU
	// Progress is called after every trial, one call at a time.
	Progress func(done, total int)
}

// Result is a finished search.
type Result struct {
	Weights scenarios.Weights
	Metric  analysis.Metric
	// Best indexes Weights.Grid. Flat counts the points, the best among them, whose paired
	// difference from the best is within its 95 % interval or below 0.1 %.
	Best, Flat int
	SpreadPct  float64 // how much worse the worst point is, in per cent of the best
}

// ratios are the points of the grid: loadWeight for cacheWeight 1, and NaN for load only.
var ratios = []float64{0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, math.NaN()}

// heldOut returns the scenario to tune on: the same with other seeds and, for a trace, another
// slice of it. The string describes these seeds and this slice.
func heldOut(s *scenarios.Scenario, seeds int) (*scenarios.Scenario, string, error) {
	out := *s
	out.Seeds = nil
	for seed := uint64(firstSeed); len(out.Seeds) < seeds; seed++ {
		if !slices.Contains(s.Seeds, seed) {
			out.Seeds = append(out.Seeds, seed)
		}
	}
	text := fmt.Sprintf("seeds %d..%d", out.Seeds[0], out.Seeds[len(out.Seeds)-1])
	if s.Workload.Kind != scenarios.WorkloadTrace {
		return &out, text, nil
	}
	t, err := slice(s)
	if err != nil {
		return nil, "", err
	}
	out.Workload.Trace = t
	return &out, fmt.Sprintf("%s of the trace from %v, %s", t.Length, t.Start, text), nil
}

// slice returns a window of the trace next to the scenario's: after it, or else before it.
func slice(s *scenarios.Scenario) (*scenarios.Trace, error) {
	t := *s.Workload.Trace
	if t.Length == 0 {
		return nil, &scenarios.Error{Path: "workload.trace.length", Msg: s.Name + ": 0s takes the trace to its end, which leaves nothing to tune on: give it a length, such as 30m"}
	}
	after, before := t, t
	after.Start += t.Length
	before.Start, before.Length = max(0, t.Start-t.Length), min(t.Length, t.Start)
	for _, window := range []*scenarios.Trace{&after, &before} {
		if window.Length > 0 && enough(s, window) {
			return window, nil
		}
	}
	return nil, &scenarios.Error{Path: "workload.trace.length", Msg: fmt.Sprintf(
		"%s: the trace holds too little outside the window from %v for %v to tune on (at least %d requests): shorten it", s.Name, t.Start, t.Length, leastRequests)}
}

// leastRequests is the least number of requests in a useful slice.
const leastRequests = 50

// enough reports whether a slice of the trace holds enough requests.
func enough(s *scenarios.Scenario, t *scenarios.Trace) bool {
	probe := *s
	probe.Workload.Trace = t
	c, err := trials.New(&probe)
	if err != nil {
		return false
	}
	l, err := c.Load(firstSeed)
	return err == nil && len(l.Requests) >= leastRequests
}

// Check refuses invalid options.
func (o *Options) Check() error {
	_, err := o.metric()
	return err
}

func (o *Options) metric() (analysis.Metric, error) {
	metric, err := analysis.FindMetric(cmp.Or(o.Metric, "ttft_mean"))
	switch {
	case err != nil:
	case metric.Better == 0:
		err = fmt.Errorf("metric %s has no better side to tune towards", metric.Name)
	case o.Seeds < 0 || o.Seeds > 1000:
		err = fmt.Errorf("seeds: must be 1..1000, got %d", o.Seeds)
	}
	return metric, err
}

// Search runs the grid.
func Search(ctx context.Context, s *scenarios.Scenario, opt Options) (*Result, error) {
	metric, err := opt.metric()
	if err != nil {
		return nil, err
	}
	held, tunedOn, err := heldOut(s, cmp.Or(opt.Seeds, 5))
	if err != nil {
		return nil, err
	}
	scores, err := grid(ctx, held, metric, opt)
	if err != nil {
		return nil, err
	}
	r := judge(metric, scores)
	r.Weights.Scenario, r.Weights.Metric, r.Weights.TunedOn = s.Name, metric.Name, tunedOn
	r.Weights.Sensitivity = fmt.Sprintf("%d of %d points are as good as the best within the noise; the worst is %.1f %% worse",
		r.Flat, len(r.Weights.Grid), r.SpreadPct)
	return r, nil
}

// grid returns the metric by point and seed.
func grid(ctx context.Context, s *scenarios.Scenario, metric analysis.Metric, opt Options) ([][]float64, error) {
	c, err := trials.NewServing(s)
	if err != nil {
		return nil, err
	}
	scores := make([][]float64, len(ratios))
	for i := range scores {
		scores[i] = make([]float64, len(s.Seeds))
	}
	var mu sync.Mutex
	done := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(opt.Jobs, runtime.GOMAXPROCS(0)))
	for j, seed := range s.Seeds {
		for i, ratio := range ratios {
			g.Go(func() error {
				p := policy(ratio)
				f, err := analysis.PlayTrial(ctx, trials.Flow{Cluster: c}, trials.Trial{Policy: p, Seed: seed})
				if err != nil {
					return err
				}
				v := f.Value(metric.Name)
				if math.IsNaN(v) {
					return fmt.Errorf("%s: no request gave a %s (weights %g and %g, seed %d)", s.Name, metric.Name, p.CacheWeight, p.LoadWeight, seed)
				}
				scores[i][j] = v
				mu.Lock()
				defer mu.Unlock()
				done++
				if opt.Progress != nil {
					opt.Progress(done, len(ratios)*len(s.Seeds))
				}
				return nil
			})
		}
	}
	return scores, g.Wait()
}

func policy(ratio float64) scenarios.Policy {
	p := scenarios.Policy{Name: "cla*", Label: "cla*", CacheWeight: 1, LoadWeight: ratio}
	if math.IsNaN(ratio) {
		p.CacheWeight, p.LoadWeight = 0, 1
	}
	return p
}

// judge picks the best mean, the first of equal ones, and says how flat the grid is.
func judge(metric analysis.Metric, scores [][]float64) *Result {
	r := &Result{Metric: metric}
	sign := float64(-metric.Better) // less is better after this multiplication
	best, _ := analysis.Mean(scores[0])
	worst := math.Inf(-1)
	for i, ratio := range ratios {
		mean, ci := analysis.Mean(scores[i])
		if math.IsNaN(ci) {
			ci = 0
		}
		p := policy(ratio)
		r.Weights.Grid = append(r.Weights.Grid, scenarios.WeightScore{
			CacheWeight: p.CacheWeight, LoadWeight: p.LoadWeight, Score: round(mean), CI95: round(ci),
		})
		if sign*mean < sign*best {
			r.Best, best = i, mean
		}
		worst = max(worst, sign*mean)
	}
	r.SpreadPct = 100 * math.Abs((worst-sign*best)/best)
	for i := range scores {
		diff := make([]float64, len(scores[i]))
		for j := range diff {
			diff[j] = scores[i][j] - scores[r.Best][j]
		}
		mean, ci := analysis.Mean(diff)
		if math.Abs(mean) <= ci || math.Abs(mean) <= 1e-3*math.Abs(best) {
			r.Flat++
		}
	}
	r.Weights.CacheWeight, r.Weights.LoadWeight = r.Weights.Grid[r.Best].CacheWeight, r.Weights.Grid[r.Best].LoadWeight
	return r
}

// round limits the digits in the file to the accuracy of the search.
func round(v float64) float64 { return math.Round(v*1e4) / 1e4 }
