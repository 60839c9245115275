package analysis

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
)

// TrialFigures are the figures of one trial. Times are milliseconds of paper time over completed
// requests; a figure without a value (no request completed, decisions untimed) is NaN in Value
// and an empty field in CSV.
type TrialFigures struct {
	Submitted int `json:"submitted"`
	Completed int `json:"completed"`
	// Values holds the figures by the name of their Metric.
	Values map[string]float64 `json:"values"`
}

// Metric is one figure of a trial.
type Metric struct {
	Name, Unit, Meaning string
	// Better is -1 if less is better, 1 if more is better, 0 if neither.
	Better int
}

// Metrics lists the figures in the order of the CSV's columns.
func Metrics() []Metric {
	return []Metric{
		{"ttft_mean", "ms", "mean time to first token", -1},
		{"ttft_p50", "ms", "median time to first token", -1},
		{"ttft_p99", "ms", "99th percentile of the time to first token", -1},
		{"transfer_mean", "ms", "mean transfer time; a full prefix hit counts 0", -1},
		{"transfer_p50", "ms", "median transfer time", -1},
		{"transfer_p99", "ms", "99th percentile of the transfer time", -1},
		{"tbt_mean", "ms", "mean time between tokens", -1},
		{"queue_mean", "ms", "mean wait at the prefill and at the decode instance", -1},
		{"prefill_mean", "ms", "mean prefill compute", -1},
		{"slo", "share", "share of submitted requests within both thresholds", 1},
		{"hit_share", "share", "prompt tokens found in the decode instance's prefix cache", 1},
		{"tier0", "share", "transfers within a server", 0},
		{"tier1", "share", "transfers within a rack", 0},
		{"tier2", "share", "transfers within a pod", 0},
		{"tier3", "share", "transfers across pods", 0},
		{"decision_mean", "us", "mean wall-clock time of a decode decision, where it was timed", -1},
		{"decision_p99", "us", "99th percentile of that", -1},
	}
}

// FindMetric finds a metric by name; the error lists the valid names.
func FindMetric(name string) (Metric, error) {
	var names []string
	for _, m := range Metrics() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Metric{}, fmt.Errorf("unknown metric %q (valid: %s)", name, strings.Join(names, ", "))
}

// Value returns the figure of that name, NaN if the trial has none.
func (f *TrialFigures) Value(name string) float64 {
	if v, ok := f.Values[name]; ok {
		return v
	}
	return math.NaN()
}

// PlayTrial plays a trial in the flow world and returns its figures.
func PlayTrial(ctx context.Context, w trials.Flow, t trials.Trial) (TrialFigures, error) {
	t.World = results.WorldFlow
	records, err := trials.Play(ctx, w, w.Cluster, t)
	if err != nil {
		return TrialFigures{}, err
	}
	s := w.Cluster.Scenario
	return Measure(records, results.SLO{TTFT: s.SLO.TTFT, TBT: s.SLO.TBT}), nil
}

// Measure computes the figures of one trial's records, as defined by Summarize but without
// intervals, since one trial has none.
func Measure(records []results.Record, slo results.SLO) TrialFigures {
	const label = "trial"
	rows := slices.Clone(records)
	for i := range rows {
		rows[i].Policy = label
	}
	sum := Summarize(rows, results.Meta{SLO: slo, Policies: []string{label}, Worlds: []string{results.WorldFlow}})
	g := sum.Worlds[results.WorldFlow][label]
	f := TrialFigures{Submitted: g.Requests.Submitted, Completed: g.Requests.Completed, Values: map[string]float64{}}
	stats := func(name string, s *results.Stats, tails bool) {
		if s == nil {
			return
		}
		f.Values[name+"_mean"] = s.Mean
		if tails {
			f.Values[name+"_p50"], f.Values[name+"_p99"] = s.P50, s.P99
		}
	}
	stats("ttft", g.TTFT, true)
	stats("transfer", g.Transfer, true)
	stats("tbt", g.TBT, false)
	stats("queue", g.Queue, false)
	stats("prefill", g.Prefill, false)
	if g.Decision != nil {
		f.Values["decision_mean"], f.Values["decision_p99"] = g.Decision.Mean, g.Decision.P99
	}
	if g.SLOAttainment != nil {
		f.Values["slo"] = *g.SLOAttainment
	}
	if g.HitShare != nil {
		f.Values["hit_share"] = *g.HitShare
	}
	for t := range 4 {
		if g.Transfers > 0 {
			f.Values[fmt.Sprintf("tier%d", t)] = g.TierShare[fmt.Sprint(t)]
		}
	}
	return f
}
