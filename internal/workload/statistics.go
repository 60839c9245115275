package workload

import "time"

// Statistics describes a trace. Prefix hits are those of one unlimited cache: a block is a hit
// when its row's whole prefix up to it occurred in earlier rows.
type Statistics struct {
	Rows             int           `json:"rows"`
	Span             time.Duration `json:"span_ns"` // from first to last row
	DistinctInstants int           `json:"distinct_instants"`
	LeastPerInstant  int           `json:"least_per_instant"`
	MostPerInstant   int           `json:"most_per_instant"`
	MeanInput        float64       `json:"mean_input_tokens"`
	MeanOutput       float64       `json:"mean_output_tokens"`
	OneTokenOutputs  int           `json:"rows_with_output_1"`
	Blocks           int           `json:"blocks"`
	DistinctIDs      int           `json:"distinct_ids"`
	HitBlocks        int           `json:"hit_blocks"`
	FullyCovered     int           `json:"rows_fully_covered"` // rows with ids that are all hits
	// CountMismatches are rows whose number of ids is not ceil(input/512).
	CountMismatches int `json:"rows_with_other_id_count"`
}

// HitShare returns the share of blocks that are hits, 0..1; false without blocks.
func (s Statistics) HitShare() (float64, bool) {
	if s.Blocks == 0 {
		return 0, false
	}
	return float64(s.HitBlocks) / float64(s.Blocks), true
}

// Describe computes the statistics of rows in file order, as ReadTrace returns them.
func Describe(rows []TraceRow) Statistics {
	s := Statistics{Rows: len(rows)}
	if len(rows) == 0 {
		return s
	}
	s.Span = rows[len(rows)-1].At - rows[0].At
	s.countInstants(rows)
	seen := map[uint64]struct{}{}
	var input, output float64
	for i := range rows {
		r := &rows[i]
		input += float64(r.InputTokens)
		output += float64(r.OutputTokens)
		if r.OutputTokens == 1 {
			s.OneTokenOutputs++
		}
		if len(r.IDs) != ceilDiv(r.InputTokens, TraceBlockTokens) {
			s.CountMismatches++
		}
		hits := 0
		for hits < len(r.IDs) {
			if _, ok := seen[r.IDs[hits]]; !ok {
				break
			}
			hits++
		}
		for _, id := range r.IDs[hits:] {
			seen[id] = struct{}{}
		}
		s.Blocks += len(r.IDs)
		s.HitBlocks += hits
		if hits > 0 && hits == len(r.IDs) {
			s.FullyCovered++
		}
	}
	s.DistinctIDs = len(seen)
	s.MeanInput, s.MeanOutput = input/float64(len(rows)), output/float64(len(rows))
	return s
}

// countInstants counts runs of rows with equal time.
func (s *Statistics) countInstants(rows []TraceRow) {
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && rows[to].At == rows[from].At {
			to++
		}
		if n := to - from; s.DistinctInstants == 0 || n < s.LeastPerInstant {
			s.LeastPerInstant = n
		}
		s.MostPerInstant = max(s.MostPerInstant, to-from)
		s.DistinctInstants++
		from = to
	}
}
