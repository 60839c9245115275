package paper

import (
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/netkvlab/netkvlab/internal/results"
)

// Take adds the packet world's figures of a run folder as those of a cell, named by
// "sweep/labels". A run whose verdict is not good says nothing of the paper and is refused.
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
