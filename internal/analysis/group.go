package analysis

import (
	"slices"
	"strconv"

	"github.com/netkvlab/netkvlab/internal/results"
)

// summarizeGroup computes the figures of one policy in one world. The records
// are sorted by seed and request.
func summarizeGroup(records []*results.Record, meta *results.Meta) *results.Group {
	g := &results.Group{}
	for _, r := range records {
		count(g, r)
	}
	g.TTFT = describe(columnOf(records, completed(ttft)))
	g.TBT = describe(columnOf(records, completed(tbt)))
	g.Transfer = describe(columnOf(records, completed(transfer)))
	g.Queue = describe(columnOf(records, completed(queue)))
	g.Prefill = describe(columnOf(records, completed(prefill)))
	g.Decision = describe(columnOf(records, completed(decision)))
	g.SLOAttainment = attainment(records, meta)
	g.TierShare, g.Transfers = tierShare(records)
	g.HitShare = hitShare(records)
	g.PeakTransfersIntoOne = peakTransfersInto(records)
	switch {
	case len(records) == 0:
		g.Reason = "no request was submitted"
	case g.Requests.Completed == 0:
		g.Reason = "no request completed"
	}
	return g
}

// count adds one record to the counters.
func count(g *results.Group, r *results.Record) {
	g.Requests.Submitted++
	switch r.Status {
	case results.Completed:
		g.Requests.Completed++
	case results.Failed:
		g.Requests.Failed++
	default: // all others did not end
		g.Requests.Incomplete++
	}
	if r.Status != results.Completed && r.Reason != "" {
		if g.FailureReasons == nil {
			g.FailureReasons = map[string]int{}
		}
		g.FailureReasons[r.Reason]++
	}
	g.BytesMoved += r.MovedBytesEmulated
	g.PayloadBytes += r.PayloadBytes
	g.PayloadBytesEmulated += r.PayloadBytesEmulated
	g.WastedBytesEmulated += r.WastedBytesEmulated
	g.Retransmits += int64(r.Retransmits)
}

// A measure takes one figure from a record; false when it has none.
type measure func(*results.Record) (float64, bool)

func ttft(r *results.Record) (float64, bool) { return optional(r.TTFTMS) }
func tbt(r *results.Record) (float64, bool)  { return optional(r.TBTMS) }

// transfer measures every completed request. If the whole prompt was cached, nothing was moved
// and the time of 0 counts: a transfer was saved.
func transfer(r *results.Record) (float64, bool) { return r.TransferMS, true }

func queue(r *results.Record) (float64, bool)   { return r.PrefillWaitMS + r.DecodeWaitMS, r.HasEngine() }
func prefill(r *results.Record) (float64, bool) { return r.PrefillMS, r.HasEngine() }

// decision is absent where nothing was decided or decisions were not timed.
func decision(r *results.Record) (float64, bool) { return r.DecisionUS, r.DecisionUS > 0 }

func optional(v *float64) (float64, bool) {
	if v == nil {
		return 0, false
	}
	return *v, true
}

// completed limits a measure to completed records.
func completed(m measure) measure {
	return func(r *results.Record) (float64, bool) {
		if r.Status != results.Completed {
			return 0, false
		}
		return m(r)
	}
}

// columnOf measures sorted records.
func columnOf(records []*results.Record, m measure) Column {
	var c Column
	for _, r := range records {
		if v, ok := m(r); ok {
			c.keys, c.values = append(c.keys, Key{r.Seed, r.ID}), append(c.values, v)
		}
	}
	return c
}

// describe is nil when there is no value.
func describe(c Column) *results.Stats {
	if len(c.keys) == 0 {
		return nil
	}
	e := estimate(mean(c.values), c.keys, c.values, seedsAlone)
	sorted := slices.Sorted(slices.Values(c.values))
	return &results.Stats{
		N: len(sorted), Mean: e.Value, CI95: e.CI95, CIMethod: e.Method, CIN: e.N,
		Min: sorted[0], P50: Percentile(sorted, 50), P90: Percentile(sorted, 90), P99: Percentile(sorted, 99), Max: sorted[len(sorted)-1],
	}
}

// attainment is nil when no request is judged.
func attainment(records []*results.Record, meta *results.Meta) *float64 {
	var met, all int
	for _, r := range records {
		if !judged(meta, r) {
			continue
		}
		all++
		if attained(&meta.SLO, r) {
			met++
		}
	}
	return ratio(met, all)
}

// tierShare counts completed requests by the tier between prefill and decode. All four tiers are
// present, so that the shares sum to 1.
func tierShare(records []*results.Record) (map[string]float64, int) {
	var n [4]int
	total := 0
	for _, r := range records {
		if r.Status == results.Completed && r.Tier >= 0 && r.Tier < len(n) {
			n[r.Tier]++
			total++
		}
	}
	if total == 0 {
		return nil, 0
	}
	out := make(map[string]float64, len(n))
	for t, c := range n {
		out[strconv.Itoa(t)] = float64(c) / float64(total)
	}
	return out, total
}

func hitShare(records []*results.Record) *float64 {
	var hit, prompt int
	for _, r := range records {
		if r.Status == results.Completed && r.HasEngine() {
			hit += r.HitTokens
			prompt += r.PromptTokens
		}
	}
	return ratio(hit, prompt)
}

// ratio returns a/b, or nil when b is 0.
func ratio(a, b int) *float64 {
	if b == 0 {
		return nil
	}
	return new(float64(a) / float64(b))
}
