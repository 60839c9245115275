package results

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRecordLaws(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Record)
		want   string // part of the message; empty: lawful
	}{
		{"a completed request obeys all", func(*Record) {}, ""},
		{"parts may miss their sum by half a microsecond", func(r *Record) { *r.TTFTMS += 0.0005 }, ""},
		{"parts that miss their sum by 2 us", func(r *Record) { *r.TTFTMS += 0.002 }, "parts add up"},
		{"a failure has a reason", func(r *Record) { *r = fail(*r, "") }, "without a reason"},
		{"a failure with a reason", func(r *Record) { *r = fail(*r, "agent died") }, ""},
		{"an unknown status", func(r *Record) { r.Status = "ok" }, `status "ok"`},
		{"no world", func(r *Record) { r.World = "" }, "must both be named"},
		{"completed without first token", func(r *Record) { r.TTFTMS = nil }, "without a ttft_ms"},
		{"a TTFT of 0", func(r *Record) { *r.TTFTMS = 0 }, "ttft_ms is 0"},
		{"a TTFT that is no number", func(r *Record) { *r.TTFTMS = math.NaN() }, "ttft_ms is NaN"},
		{"a negative part", func(r *Record) { r.DecodeWaitMS = -1 }, "decode_wait_ms is -1"},
		{"an infinite part", func(r *Record) { r.TransferMS = math.Inf(1) }, "transfer_ms is +Inf"},
		{"a TBT of a one-token answer", func(r *Record) { r.OutputTokens, r.TBTMS = 1, ptr(0) }, "no time between tokens"},
		{"bytes went missing", func(r *Record) { r.MovedBytesEmulated-- }, "the receiver counted 999"},
		{"negative bytes", func(r *Record) { r.WastedBytesEmulated = -1 }, "wasted_bytes_emulated is -1"},
		{"finished before it came", func(r *Record) { *r.FinishMS = r.ArrivalMS - 1 }, "before arrival_ms"},
		{"a fifth tier", func(r *Record) { r.Tier = 4 }, "tier 4"},
		{"completed nowhere", func(r *Record) { r.Tier = -1 }, "without a decode instance"},
		{"an explicit flow has no TTFT", func(r *Record) {
			r.PromptTokens, r.OutputTokens, r.TTFTMS, r.TBTMS = 0, 0, nil, nil
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := madeRecord(rand.New(rand.NewPCG(1, 1)), WorldPacket, "rr", 1, 7)
			r.OutputTokens, r.TBTMS = 2, ptr(13)
			tt.change(&r)
			err := r.Check()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			assert.ErrorContains(t, err, "request 7")
		})
	}
}
