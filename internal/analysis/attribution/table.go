package attribution

import (
	"slices"
	"strconv"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// Table holds what the waterfalls need of the stages' records. The zero value is empty
// and ready. Not safe for concurrent use.
type Table struct {
	columns map[cell]analysis.Column
	packet  map[string]int // requests of the packet run by policy
	seeds   map[uint64]bool
	wide    map[uint64]bool // of the flow stage
}

type cell struct {
	stage          Stage
	policy, metric string
}

// Add takes a stage's records; those that did not complete do not count, and their
// order does not matter.
func (t *Table) Add(stage Stage, records []results.Record) {
	if t.columns == nil {
		t.columns, t.packet = map[cell]analysis.Column{}, map[string]int{}
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
		key := analysis.Key{Seed: r.Seed, ID: r.ID}
		t.column(cell{stage, r.Policy, results.MetricTransfer})[key] = r.TransferMS
		if r.TTFTMS != nil {
			t.column(cell{stage, r.Policy, results.MetricTTFT})[key] = *r.TTFTMS
		}
	}
}

func (t *Table) column(c cell) analysis.Column {
	if t.columns[c] == nil {
		t.columns[c] = analysis.Column{}
	}
	return t.columns[c]
}

// chain gives a policy's columns in the order of the stages.
func (t *Table) chain(policy, metric string) []analysis.Column {
	stages := Stages()
	out := make([]analysis.Column, len(stages))
	for i, s := range stages {
		out[i] = t.columns[cell{s, policy, metric}]
	}
	return out
}

// stageAgain names one of the runs with other tie-break draws.
func stageAgain(k int) Stage { return Stage("flow again " + strconv.Itoa(k)) }

// again gives the runs with other luck: of a policy, or of a policy and its baseline.
// It ends with the first that was not made.
func (t *Table) again(metric string, policies ...string) []series {
	var out []series
	for k := range redraws {
		var columns []analysis.Column
		for _, p := range policies {
			columns = append(columns, t.columns[cell{stageAgain(k), p, metric}])
		}
		s := series{columns: columns[:1]}
		if len(columns) > 1 {
			s.baseline = columns[1:]
		}
		if slices.ContainsFunc(columns, func(c analysis.Column) bool { return c == nil }) {
			return out
		}
		out = append(out, s)
	}
	return out
}
