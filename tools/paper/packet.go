package paper

import (
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/netkvlab/netkvlab/internal/results"
)

// Take adds the packet world's figures of a run folder as those of a cell, named by
// "sweep/labels". A run whose verdict is not good proves nothing about the paper and is refused.
func (p *Packet) Take(cell string, folder fs.FS) error {
	data, err := fs.ReadFile(folder, "summary.json")
	if err != nil {
		return fmt.Errorf("no run folder: %w", err)
	}
	var s results.Summary
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("summary.json: %w", err)
	}
	groups := s.Worlds[results.WorldPacket]
	switch {
	case len(groups) == 0:
		return fmt.Errorf("holds no packet world")
	case s.Fidelity.Verdict != results.VerdictGood:
		return fmt.Errorf("the fidelity verdict is %s %v: run it on a host that carries it", s.Fidelity.Verdict, s.Fidelity.Reasons)
	}
	if p.Cells == nil {
		p.Cells = map[string]float64{}
	}
	p.Note = note(&s)
	for policy, g := range groups {
		put := func(metric string, v float64) { p.Cells[cell+"/"+policy+"/"+metric] = v }
		for metric, st := range map[string]*results.Stats{"ttft_mean": g.TTFT, "transfer_mean": g.Transfer, "tbt_mean": g.TBT} {
			if st != nil {
				put(metric, st.Mean)
			}
		}
		if g.TTFT != nil {
			put("ttft_p99", g.TTFT.P99)
		}
		if g.SLOAttainment != nil {
			put("slo", *g.SLOAttainment)
		}
		for tier, v := range g.TierShare {
			put("tier"+tier, v)
		}
	}
	return nil
}

// note describes how the packet world's figures were measured.
func note(s *results.Summary) string {
	requests := 0
	for _, g := range s.Worlds[results.WorldPacket] {
		requests = max(requests, g.Requests.Submitted)
	}
	return fmt.Sprintf("%d requests a policy over %d seed(s), at scale.rate %g, fidelity %s; the flow world has more of both, so differences of some per cent between the two columns are chance.",
		requests, len(s.Seeds), s.Scale.Rate, s.Fidelity.Verdict)
}
