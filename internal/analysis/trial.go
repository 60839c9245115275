package analysis

import (
	"context"
	"fmt"
	"math"
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

// Measure computes the figures of one trial's records in any one world, as defined by Summarize
// but without intervals, since one trial has none.
func Measure(records []results.Record, slo results.SLO) TrialFigures {
	g := summarizeGroup(sortRecords(records), &results.Meta{SLO: slo})
	all := map[string]float64{}
	for name, s := range map[string]*results.Stats{
		"ttft": g.TTFT, "transfer": g.Transfer, "tbt": g.TBT, "queue": g.Queue, "prefill": g.Prefill, "decision": g.Decision,
	} {
		if s != nil {
			all[name+"_mean"], all[name+"_p50"], all[name+"_p99"] = s.Mean, s.P50, s.P99
		}
	}
	for name, share := range map[string]*float64{"slo": g.SLOAttainment, "hit_share": g.HitShare} {
		if share != nil {
			all[name] = *share
		}
	}
	for tier, share := range g.TierShare {
		all["tier"+tier] = share
	}
	f := TrialFigures{Submitted: g.Requests.Submitted, Completed: g.Requests.Completed, Values: map[string]float64{}}
	for _, m := range Metrics() {
		if v, ok := all[m.Name]; ok {
			f.Values[m.Name] = v
		}
	}
	return f
}
