package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRemarksSayHowATraceWasReplayed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		report Report
		want   []string
	}{
		{"synthetic", Report{Requests: 5}, nil},
		{"clean", Report{Requests: 5, DistinctInstants: 2, Trace: &TraceReport{File: "t", RateScale: 1}},
			[]string{"trace t: 5 requests at 2 instants, arrivals as stamped"}},
		{"spread and faster", Report{Requests: 5, DistinctInstants: 5, Trace: &TraceReport{File: "t", RateScale: 2, Spread: 3 * time.Second}},
			[]string{"trace t: 5 requests at 5 instants, arrivals moved on by a seeded draw below 3s, replayed 2 times as fast"}},
		{"odd", Report{Trace: &TraceReport{File: "t", RateScale: 1, BadLines: 2, BadExamples: []string{"t:1: x", "t:3: y"}, ZeroOutputs: 1, MissingIDs: 4}},
			[]string{"trace t: 0 requests at 0 instants, arrivals as stamped",
				"trace t, oddities: skipped 2 bad lines, first: t:1: x; 1 rows with an empty answer, raised to one token; 4 rows with fewer hash_ids than blocks, filled up"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, tt.report.Remarks())
		})
	}
}
