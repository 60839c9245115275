package results

import "strconv"

// summarizeGroup computes the figures of one policy in one world. The records
// are sorted by seed and request.
func summarizeGroup(records []*Record, meta *Meta) *Group {
	g := &Group{}
	for _, r := range records {
		g.count(r)
	}
	g.TTFT = figure(records, ttft)
	g.TBT = figure(records, tbt)
	g.Transfer = figure(records, transfer)
	g.Queue = figure(records, queue)
	g.Prefill = figure(records, prefill)
	g.Decision = figure(records, decision)
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
func (g *Group) count(r *Record) {
	g.Requests.Submitted++
	switch r.Status {
	case Completed:
		g.Requests.Completed++
	case Failed:
		g.Requests.Failed++
	default: // whatever is neither did not end
		g.Requests.Incomplete++
	}
	if r.Status != Completed && r.Reason != "" {
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

// A measure takes one figure from a completed record; false when it has none.
type measure func(*Record) (float64, bool)

func ttft(r *Record) (float64, bool) { return optional(r.TTFTMS) }
func tbt(r *Record) (float64, bool)  { return optional(r.TBTMS) }

// transfer counts every completed request, also one whose whole prompt was
// cached and that moved nothing: its 0 is a transfer saved.
func transfer(r *Record) (float64, bool) { return r.TransferMS, true }

func queue(r *Record) (float64, bool)   { return r.PrefillWaitMS + r.DecodeWaitMS, r.HasEngine() }
func prefill(r *Record) (float64, bool) { return r.PrefillMS, r.HasEngine() }

// decision is 0 where nothing was decided or nobody held a clock.
func decision(r *Record) (float64, bool) { return r.DecisionUS, r.DecisionUS > 0 }

func optional(v *float64) (float64, bool) {
	if v == nil {
		return 0, false
	}
	return *v, true
}

// figure describes a measure over the completed records.
func figure(records []*Record, m measure) *Stats {
	var seeds []seedValues
	var last uint64
	for _, r := range records {
		if r.Status != Completed {
			continue
		}
		v, ok := m(r)
		if !ok {
			continue
		}
		if len(seeds) == 0 || r.Seed != last {
			seeds = append(seeds, nil)
			last = r.Seed
		}
		seeds[len(seeds)-1] = append(seeds[len(seeds)-1], v)
	}
	return describe(seeds)
}

// attainment is nil when no request is judged.
func attainment(records []*Record, meta *Meta) *float64 {
	var met, all int
	for _, r := range records {
		if !meta.judged(r) {
			continue
		}
		all++
		if meta.SLO.attained(r) {
			met++
		}
	}
	return ratio(met, all)
}

// tierShare counts completed requests by the tier between prefill and decode.
// All four tiers are present, so that the shares visibly sum to 1.
func tierShare(records []*Record) (map[string]float64, int) {
	var n [4]int
	total := 0
	for _, r := range records {
		if r.Status == Completed && r.Tier >= 0 && r.Tier < len(n) {
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

func hitShare(records []*Record) *float64 {
	var hit, prompt int
	for _, r := range records {
		if r.Status == Completed && r.HasEngine() {
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
	v := float64(a) / float64(b)
	return &v
}
