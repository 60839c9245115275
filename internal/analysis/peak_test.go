package analysis

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/internal/results"
)

func TestPeakTransfersIntoOne(t *testing.T) {
	t.Parallel()
	into := func(decode string, start, took float64) *results.Record {
		return &results.Record{Decode: decode, Status: results.Completed, ArrivalMS: start, TransferStartMS: start, TransferMS: took, PayloadBytes: 1}
	}
	seed := func(r *results.Record, seed uint64) *results.Record { r.Seed = seed; return r }
	overlapped := into("d0", 10, 5) // it left 8 ms before its prefill ended at 20 ms
	overlapped.PrefillMS, overlapped.TransferStartMS = 10, 12
	cached := into("d0", 0, 100)
	cached.PayloadBytes = 0
	for _, tt := range []struct {
		name    string
		records []*results.Record
		want    int
	}{
		{"none", nil, 0},
		{"one", []*results.Record{into("d0", 5, 1)}, 1},
		{"two that overlap, a third later", []*results.Record{into("d0", 0, 10), into("d0", 9, 10), into("d0", 30, 1)}, 2},
		{"one starts as another ends", []*results.Record{into("d0", 0, 0.1), into("d0", 0.1, 0.2)}, 1},
		{"into two instances", []*results.Record{into("d0", 0, 10), into("d1", 0, 10)}, 1},
		{"on two seeds", []*results.Record{into("d0", 0, 10), seed(into("d0", 0, 10), 2)}, 1},
		{"a full hit beside one", []*results.Record{cached, into("d0", 0, 10)}, 1},
		{"one that never ended", []*results.Record{into("d0", 0, 0), into("d0", 0, 10)}, 1},
		{"overlapped with its prefill", []*results.Record{overlapped, into("d0", 13, 1)}, 2},
		{"after the overlapped one", []*results.Record{overlapped, into("d0", 25, 1)}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, peakTransfersInto(tt.records))
		})
	}
}
