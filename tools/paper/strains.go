package paper

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// strains writes where the paper's own figures do not fit its claims, and what the flow world
// shows there. All numbers are computed from the data.
func strains(b *page, d *Data) {
	b.WriteString("## Where the paper's figures strain its claims\n\n| claim | the paper's own figures | our flow world |\n|---|---|---|\n")
	// sure is for a row whose last cell is a sentence about the data.
	sure := func(holds bool, claim, theirs, ours string) {
		b.claim(holds, "| %s | %s | %s |\n", claim, theirs, ours)
	}
	row := func(claim, theirs, ours string) { sure(true, claim, theirs, ours) }
	paperDips, paperSteps := dips(func(p string, y, x int) float64 { return Fig1()[p][y][x] })
	oursDips, oursSteps := dips(func(p string, y, x int) float64 {
		v, _ := d.Tables["paper-fig1"].Change([]string{p, fig1Rows[y], fig1Cols[x]}, "netkv-full", "cla*", "ttft_mean", 0)
		return -v
	})
	row("gains grow along both axes of Fig. 1",
		fmt.Sprintf("they fall in %d of %d steps, most in the 8:1 row of long-context (15.2, 14.6, 11.2)", paperDips, paperSteps),
		fmt.Sprintf("they fall in %d of %d steps", oursDips, oursSteps))
	row("the static tier map alone gives more than 90 % of the gain",
		"chatbot 91 %, RAG 84 to 86 %, long-context 82 %", staticShare(d))
	rag2, _ := d.Tables["paper-table2"].Mean([]string{"100%"}, "netkv-full", "ttft_mean")
	rag4, _ := d.Tables["paper-table4"].Mean([]string{"rag"}, "netkv-full", "ttft_mean")
	sure(math.Abs(rag2/rag4-1) < 1e-3, "Table IV's totals", "RAG 1812 to 1592 is -12.1 % (printed -11.9), long-context 7121 to 6160 is -13.5 % (printed -12.1); Table II ends at 1598, Table IV at 1592", "one run for both: the RAG rows of Tables II and IV agree to the digit where the scenario is the same")
	row("CLA* is a stronger baseline than CA", "the two coincide in Fig. 3 at every sharing: its load weight never mattered", loadWeight(d))
	sure(flatInFig2(d, "cla*", "netkv-full"), "robust to staleness", "exactly flat lines: the background stood still, so nothing was stale", "flat for the same reason; see Fig. 2")
	row("the advantage persists from 128 to 1024 GPUs", "transfer times equal to three digits at 128 to 1024: load an instance is constant, nothing new is tested", scaling(d))
	row("transfers are 25.7 % shorter by shifting tiers", "the mix of tiers alone explains -22 %", tierMix(d))
	row("decisions take less than 1.5 ms at 1024 GPUs", "Fig. 5 reads about 1.77 ms", "microseconds; see Fig. 5 above")
	row("flow level against packet level", "its own packet simulator gives 4 to 6 points less gain", "what labs show is in the packet column where they were run")
	b.WriteString("\n")
}

// dips counts the steps to the right and down in Fig. 1 in which the gain falls by more than one
// unit of its last digit.
func dips(at func(profile string, y, x int) float64) (fell, steps int) {
	for _, p := range profiles {
		for y := range fig1Rows {
			for x := range fig1Cols {
				if x > 0 {
					steps++
					if at(p, y, x) < at(p, y, x-1)-0.05 {
						fell++
					}
				}
				if y > 0 {
					steps++
					if at(p, y, x) < at(p, y-1, x)-0.05 {
						fell++
					}
				}
			}
		}
	}
	return fell, steps
}

func staticShare(d *Data) string {
	var out []string
	for _, p := range profiles {
		topo, _ := d.Tables["paper-table4"].Change([]string{p}, "netkv-topo", "cla*", "ttft_mean", 0)
		full, _ := d.Tables["paper-table4"].Change([]string{p}, "netkv-full", "cla*", "ttft_mean", 0)
		out = append(out, fmt.Sprintf("%s %.0f %%", p, 100*topo/full))
	}
	return strings.Join(out, ", ") + " (above 100 %: what is added costs)"
}

func loadWeight(d *Data) string {
	t := d.Tables["paper-fig3"]
	var gains []float64
	for _, c := range t.Cells {
		v, _ := t.Change(c, "cla*", "ca", "ttft_mean", 0)
		gains = append(gains, v)
	}
	return fmt.Sprintf("CLA* against CA: %+.1f to %+.1f %% of mean TTFT over the sharing", slices.Min(gains), slices.Max(gains))
}

func scaling(d *Data) string {
	t := d.Tables["paper-table5"]
	var out []string
	for _, c := range t.Cells {
		cla, _ := t.Mean(c, "cla*", "transfer_mean")
		full, _ := t.Mean(c, "netkv-full", "transfer_mean")
		out = append(out, fmt.Sprintf("%s GPUs %.0f and %.0f", c[0], cla, full))
	}
	return "transfer of CLA* and NetKV-Full, ms: " + strings.Join(out, "; ")
}

// tierMix is the effect of the changed tier shares only, if a tier's bytes took the time of an
// empty path: 1/50 Gbps in tier 2, 1/25 in tier 3.
func tierMix(d *Data) string {
	t := d.Tables["paper-table2"]
	inverse := func(policy string) float64 {
		var sum float64
		for tier, gbps := range []float64{2: 50, 3: 25} {
			if gbps == 0 {
				continue
			}
			s, _ := t.Mean([]string{"100%"}, policy, fmt.Sprintf("tier%d", tier))
			sum += s / gbps
		}
		return sum
	}
	all, _ := t.Change([]string{"100%"}, "netkv-full", "cla*", "transfer_mean", 0)
	mix := 100 * (inverse("netkv-full")/inverse("cla*") - 1)
	if math.IsNaN(mix) {
		return "-"
	}
	return fmt.Sprintf("%+.1f %% in all; the mix of tiers alone gives %+.1f %%, so hits and contention make up the rest", all, mix)
}
