package attribution

import (
	"strconv"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// Table holds the figures of the stages' records for the waterfalls. The zero value is an empty
// table. It is not safe for concurrent use.
type Table struct {
	figures map[cell]map[analysis.Key]float64
	packet  map[string]int // requests of the packet run by policy
	seeds   map[uint64]bool
	wide    map[uint64]bool // of the flow stage
}

type cell struct {
	stage          Stage
	policy, metric string
}

// Add adds a stage's records, in any order. Requests that did not complete do not count.
func (t *Table) Add(stage Stage, records []results.Record) {
	if t.figures == nil {
		t.figures, t.packet = map[cell]map[analysis.Key]float64{}, map[string]int{}
		t.seeds, t.wide = map[uint64]bool{}, map[uint64]bool{}
	}
	for i := range records {
		r := &records[i]
		switch stage {
		case StagePacket:
			t.packet[r.Policy]++
			t.seeds[r.Seed] = true
		case StageFlow:
			t.wide[r.Seed] = true
		}
		if r.Status != results.Completed {
			continue
		}
		t.set(cell{stage, r.Policy, results.MetricTransfer}, r, r.TransferMS)
		if r.TTFTMS != nil {
			t.set(cell{stage, r.Policy, results.MetricTTFT}, r, *r.TTFTMS)
		}
	}
}

func (t *Table) set(c cell, r *results.Record, ms float64) {
	if t.figures[c] == nil {
		t.figures[c] = map[analysis.Key]float64{}
	}
	t.figures[c][analysis.Key{Seed: r.Seed, ID: r.ID}] = ms
}

// columns are a table's figures, ready to be compared.
type columns map[cell]analysis.Column

func (t *Table) columns() columns {
	out := columns{}
	for c, figures := range t.figures {
		out[c] = analysis.NewColumn(figures)
	}
	return out
}

// chain follows a policy's mean, or its gain if a baseline is named, through stages.
func (c columns) chain(stages []Stage, metric, policy, baseline string) []analysis.Figure {
	out := make([]analysis.Figure, len(stages))
	for i, stage := range stages {
		out[i] = analysis.Figure{Unit: analysis.MS, Policy: c[cell{stage, policy, metric}]}
		if baseline != "" {
			out[i].Unit, out[i].Baseline = analysis.Percent, c[cell{stage, baseline, metric}]
		}
	}
	return out
}

// stageAgain names one of the runs with other tie-break draws.
func stageAgain(k int) Stage { return Stage("flow again " + strconv.Itoa(k)) }

// again returns the same figure in the runs with other tie-break draws, up to the first run in
// which nothing completed or that was not made.
func (c columns) again(metric, policy, baseline string) []analysis.Figure {
	var made []Stage
	for k := range redraws {
		stage := stageAgain(k)
		if len(analysis.Requests(c.chain([]Stage{stage}, metric, policy, baseline)...)) == 0 {
			break
		}
		made = append(made, stage)
	}
	return c.chain(made, metric, policy, baseline)
}
