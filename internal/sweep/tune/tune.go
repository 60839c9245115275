package tune

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// firstSeed is the first seed for tuning, far from the seeds that users normally choose.
const firstSeed = 1_000_001

// Options choose the metric and the size of the search.
type Options struct {
	// Metric is minimised (or maximised, if more is better); default ttft_mean.
	Metric string
	// Seeds is the number of seeds, none of them the scenario's; default 5.
	Seeds int
	// Jobs is the number of trials at once; 0 means one per CPU.
	Jobs int
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
	// SpreadPct is how much worse the worst point is, in per cent of the best.
	SpreadPct float64
}

// Ratios returns the points of the grid: loadWeight for cacheWeight 1, and NaN for load only.
func Ratios() []float64 {
	return []float64{0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, math.NaN()}
}

// HeldOut returns the scenario to tune on: the same with other seeds and, for a trace, another
// slice of it. The string describes these seeds and this slice.
func HeldOut(s *scenarios.Scenario, seeds int) (*scenarios.Scenario, string, error) {
	out := *s
	out.Seeds = nil
	for seed := uint64(firstSeed); len(out.Seeds) < seeds; seed++ {
		if !slices.Contains(s.Seeds, seed) {
			out.Seeds = append(out.Seeds, seed)
		}
	}
	said := fmt.Sprintf("seeds %d..%d", out.Seeds[0], out.Seeds[len(out.Seeds)-1])
	if s.Workload.Kind != scenarios.WorkloadTrace {
		return &out, said, nil
	}
	t, err := slice(s)
	if err != nil {
		return nil, "", err
	}
	out.Workload.Trace = t
	return &out, fmt.Sprintf("%s of the trace from %v, %s", t.Length, t.Start, said), nil
}

// slice returns a window of the trace next to the scenario's: after it, or else before it.
func slice(s *scenarios.Scenario) (*scenarios.Trace, error) {
	t := *s.Workload.Trace
	if t.Length == 0 {
		return nil, &scenarios.Error{Path: "workload.trace.length", Msg: s.Name + ": 0s takes the trace to its end, which leaves nothing to tune on: give it a length, such as 30m"}
	}
	after := t
	after.Start += t.Length
	if held, ok := requests(s, &after); ok {
		return held, nil
	}
	before := t
	before.Start, before.Length = max(0, t.Start-t.Length), min(t.Length, t.Start)
	if before.Length > 0 {
		if held, ok := requests(s, &before); ok {
			return held, nil
		}
	}
	return nil, &scenarios.Error{Path: "workload.trace.length", Msg: fmt.Sprintf(
		"%s: the trace holds too little outside the window from %v for %v to tune on (at least %d requests): shorten it", s.Name, t.Start, t.Length, leastRequests)}
}

// leastRequests is the least number of requests in a useful slice.
const leastRequests = 50

func requests(s *scenarios.Scenario, t *scenarios.Trace) (*scenarios.Trace, bool) {
	probe := *s
	probe.Workload.Trace = t
	c, err := trials.New(&probe)
	if err != nil {
		return t, false
	}
	l, err := c.Load(firstSeed)
	return t, err == nil && len(l.Requests) >= leastRequests
}

// Check refuses invalid options.
func (o *Options) Check() error {
	metric, err := analysis.FindMetric(cmp.Or(o.Metric, defaultMetric))
	switch {
	case err != nil:
		return err
	case metric.Better == 0:
		return fmt.Errorf("metric %s has no better side to tune towards", metric.Name)
	case o.Seeds < 0 || o.Seeds > 1000:
		return fmt.Errorf("seeds: must be 1..1000, got %d", o.Seeds)
	}
	return nil
}

const (
	defaultMetric = "ttft_mean"
	defaultSeeds  = 5
)

// Search runs the grid.
func Search(ctx context.Context, s *scenarios.Scenario, opt Options) (*Result, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	metric, err := analysis.FindMetric(cmp.Or(opt.Metric, defaultMetric))
	if err != nil {
		return nil, err
	}
	opt.Seeds = cmp.Or(opt.Seeds, defaultSeeds)
	held, said, err := HeldOut(s, opt.Seeds)
	if err != nil {
		return nil, err
	}
	scores, err := grid(ctx, held, metric, opt)
	if err != nil {
		return nil, err
	}
	r := judge(metric, scores)
	r.Weights.Scenario, r.Weights.Metric, r.Weights.TunedOn = s.Name, metric.Name, said
	r.Weights.Sensitivity = r.sensitivity()
	return r, nil
}

// grid returns the metric by point and seed.
func grid(ctx context.Context, s *scenarios.Scenario, metric analysis.Metric, opt Options) ([][]float64, error) {
	c, err := trials.NewServing(s)
	if err != nil {
		return nil, err
	}
	points, seeds := Ratios(), s.Seeds
	scores := make([][]float64, len(points))
	for i := range scores {
		scores[i] = make([]float64, len(seeds))
	}
	g, ctx := errgroup.WithContext(ctx)
	jobs := opt.Jobs
	if jobs == 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	g.SetLimit(jobs)
	done := make(chan struct{}, len(points)*len(seeds))
	told := make(chan struct{})
	go func() {
		defer close(told)
		n := 0
		for range done {
			n++
			if opt.Progress != nil {
				opt.Progress(n, cap(done))
			}
		}
	}()
	for j, seed := range seeds {
		for i, ratio := range points {
			g.Go(func() error {
				f, err := analysis.PlayTrial(ctx, trials.Flow{Cluster: c}, trials.Trial{Policy: policy(ratio), Seed: seed})
				if err != nil {
					return err
				}
				v := f.Value(metric.Name)
				if math.IsNaN(v) {
					return fmt.Errorf("%s: no request gave a %s (weights %g and %g, seed %d)", s.Name, metric.Name, policy(ratio).CacheWeight, policy(ratio).LoadWeight, seed)
				}
				scores[i][j] = v
				done <- struct{}{}
				return nil
			})
		}
	}
	err = g.Wait()
	close(done)
	<-told
	return scores, err
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
	worst := math.Inf(-1)
	for i, ratio := range Ratios() {
		mean, ci := analysis.Mean(scores[i])
		if math.IsNaN(ci) {
			ci = 0
		}
		p := policy(ratio)
		r.Weights.Grid = append(r.Weights.Grid, scenarios.WeightScore{
			CacheWeight: p.CacheWeight, LoadWeight: p.LoadWeight, Score: round(mean), CI95: round(ci),
		})
		if sign*mean < sign*meanOf(scores[r.Best]) {
			r.Best = i
		}
		worst = max(worst, sign*mean)
	}
	best := meanOf(scores[r.Best])
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
	win := r.Weights.Grid[r.Best]
	r.Weights.CacheWeight, r.Weights.LoadWeight = win.CacheWeight, win.LoadWeight
	return r
}

func meanOf(v []float64) float64 {
	m, _ := analysis.Mean(v)
	return m
}

// round limits the digits in the file to the accuracy of the search.
func round(v float64) float64 { return math.Round(v*1e4) / 1e4 }

func (r *Result) sensitivity() string {
	return fmt.Sprintf("%d of %d points are as good as the best within the noise; the worst is %.1f %% worse",
		r.Flat, len(r.Weights.Grid), r.SpreadPct)
}
