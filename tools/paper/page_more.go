package paper

import (
	"fmt"
	"math"
	"strings"
)

func table5(b *page, d *Data) {
	b.WriteString("## Table V and Fig. 5: 64 to 1024 GPUs\n\n" +
		"We grow by pods of 16 GPUs, at the same arrivals an instance and with 10 % of background. A pod keeps its 2 decode instances, so a blind\n" +
		"choice leaves the pod ever more often, and NetKV has the same two candidates near.\n\n")
	var lines []line
	for _, r := range Table5() {
		if r.Packet {
			continue
		}
		labels := []string{r.GPUs}
		lines = append(lines,
			d.cellLine("paper-table5", labels, "cla*", "transfer_mean", r.CLA, milliseconds),
			d.cellLine("paper-table5", labels, "netkv-full", "transfer_mean", r.NetKV, milliseconds))
	}
	b.WriteString("**Mean transfer, ms (the paper's flow-level rows)**\n\n")
	compareTable(b, []string{"GPUs", "policy"}, lines)
	lines = nil
	for _, r := range Table5() {
		if !r.Packet {
			lines = append(lines, d.changeLine("paper-table5", []string{r.GPUs}, pair{"netkv-full", "cla*"}, "ttft_mean", r.TTFT, percent))
		}
	}
	b.WriteString("**NetKV-Full's gain in mean TTFT, %**\n\n")
	compareTable(b, []string{"GPUs", "against"}, lines)
	b.WriteString("**The paper's packet-level rows beside ours.** Its packet simulator gives TTFT gains of -7.0 % (64 GPUs) and -7.4 % (128), 4 to 6 points less than its\n" +
		"flow level. Ours is a lab with real TCP; `netkvlab up paper-table2` prints the gap and what it is made of.\n\n")
	lines = nil
	for _, r := range Table5() {
		if r.Packet {
			labels := []string{r.GPUs}
			l := d.changeLine("paper-table5", labels, pair{"netkv-full", "cla*"}, "ttft_mean", r.TTFT, percent)
			lines = append(lines, l)
		}
	}
	compareTable(b, []string{"GPUs", "against"}, lines)
	b.WriteString("Decision latency (Fig. 5) is wall-clock time and differs by machine, so no table of this page: `netkvlab sweep paper-fig5 --jobs 1` measures it. The paper\n" +
		"reads 0.7 ms at 64 and about 1.77 ms at 1024 GPUs. Ours is a compiled loop over the candidates: measured once on a virtual machine with two x86 cores, NetKV-Full\n" +
		"took 0.8 us at 64 and 3.4 us at 1024 GPUs (p99).\n\n")
}

func table6(b *page, d *Data) {
	b.WriteString("## Table VI: where transfers go\n\nShare of transfers by tier, at 100 % load.\n\n")
	at := []string{"100%"}
	lines := []line{
		d.cellLine("paper-table2", at, "cla*", "tier2", .320, share), d.cellLine("paper-table2", at, "cla*", "tier3", .680, share),
		d.cellLine("paper-table2", at, "netkv-full", "tier2", .689, share), d.cellLine("paper-table2", at, "netkv-full", "tier3", .311, share),
	}
	for i := range lines {
		lines[i].what[0] = fmt.Sprintf("tier %d", 2+i%2)
	}
	compareTable(b, []string{"tier", "policy"}, lines)
}

var (
	fig1Rows = []string{"1:1", "2:1", "4:1", "8:1"}
	fig1Cols = []string{"0%", "5%", "10%", "20%", "40%"}
	profiles = []string{"chatbot", "rag", "long-context"}
)

func fig1(b *page, d *Data) {
	b.WriteString("## Fig. 1: oversubscription and background, 60 cells\n\n" +
		"Reduction of NetKV-Full's mean TTFT against CLA* in %, *paper / flow world*. The rows are the pod's oversubscription; the rack's is half of it and at least 1.\n" +
		"No cell was run in the packet world.\n\n![heat map](paper/paper-fig1.svg)\n\n")
	t := d.Tables["paper-fig1"]
	for _, p := range profiles {
		fmt.Fprintf(b, "**%s**\n\n| background | %s |\n|---|%s\n", p, strings.Join(fig1Cols, " | "), strings.Repeat("---|", len(fig1Cols)))
		for y, row := range fig1Rows {
			fmt.Fprintf(b, "| %s |", row)
			for x, col := range fig1Cols {
				v, _ := t.Change([]string{p, row, col}, "netkv-full", "cla*", "ttft_mean", 0)
				fmt.Fprintf(b, " %.1f / %.1f |", Fig1()[p][y][x], -v)
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	wins, all := 0, 0
	for _, p := range profiles {
		for _, row := range fig1Rows {
			for _, col := range fig1Cols {
				v, _ := t.Change([]string{p, row, col}, "netkv-full", "cla*", "ttft_mean", 0)
				all++
				if v < 0 {
					wins++
				}
			}
		}
	}
	fmt.Fprintf(b, "The paper: NetKV-Full wins in all 60 cells. Flow world: in %d of %d.\n\n", wins, all)
}

func fig2(b *page, d *Data) {
	b.WriteString("## Fig. 2: age of the congestion signal\n\nP99 of TTFT in ms; the paper's values are read off its figure. ")
	b.claim(flatInFig2(d, "cla*", "netkv-full"), "Background traffic is a constant share in our flow world, so that a signal of any age but the first\n"+
		"second's says the same: like the paper's flat lines, this does not exercise staleness. Labs with `background.kind: tcp-onoff` do.\n\n")
	t := d.Tables["paper-fig2"]
	var lines []line
	for _, c := range t.Cells {
		lines = append(lines,
			d.cellLine("paper-fig2", c, "cla*", "ttft_p99", 10960, milliseconds),
			d.cellLine("paper-fig2", c, "netkv-full", "ttft_p99", 9190, milliseconds))
	}
	compareTable(b, []string{"refresh", "policy"}, lines)
}

// flatInFig2 reports whether the age of the signal changes nothing for these policies.
func flatInFig2(d *Data, policies ...string) bool {
	t := d.Tables["paper-fig2"]
	for _, policy := range policies {
		first, _ := t.Mean(t.Cells[0], policy, "ttft_p99")
		for _, c := range t.Cells {
			if v, _ := t.Mean(c, policy, "ttft_p99"); math.Abs(v/first-1) > 1e-3 {
				return false
			}
		}
	}
	return true
}

func fig3(b *page, d *Data) {
	b.WriteString("## Fig. 3: prefix sharing\n\nNetKV-Full's gain in mean TTFT, %. The paper: 15.3 to 15.6 % against both, whatever the sharing, and CA and CLA* coincide.\n\n")
	var lines []line
	for _, c := range d.Tables["paper-fig3"].Cells {
		for _, base := range []string{"ca", "cla*"} {
			lines = append(lines, d.changeLine("paper-fig3", c, pair{"netkv-full", base}, "ttft_mean", -15.45, percent))
		}
	}
	compareTable(b, []string{"share", "against"}, lines)
}

// open shows the questions that the paper leaves open.
func open(b *page, d *Data) {
	b.WriteString("## Open questions of the paper\n\n")
	ours := func(title, text, table, axis string, tiers bool) {
		fmt.Fprintf(b, "**%s** %s\n\n", title, text)
		t := d.Tables[table]
		fmt.Fprintf(b, "| %s | `cla*` TTFT | `netkv-full` TTFT | change | transfer |", axis)
		if tiers {
			b.WriteString(" tiers 0/1/2/3 of `netkv-full` |")
		}
		fmt.Fprintf(b, "\n|%s\n", strings.Repeat("---|", map[bool]int{false: 5, true: 6}[tiers]))
		for _, c := range t.Cells {
			a, _ := t.Mean(c, "cla*", "ttft_mean")
			f, _ := t.Mean(c, "netkv-full", "ttft_mean")
			g, ci := t.Change(c, "netkv-full", "cla*", "ttft_mean", 0)
			x, _ := t.Change(c, "netkv-full", "cla*", "transfer_mean", 0)
			fmt.Fprintf(b, "| %s | %.0f ms | %.0f ms | %+.1f ± %.1f %% | %+.1f %% |", strings.Join(c, ", "), a, f, g, ci, x)
			if tiers {
				var s [4]float64
				for i := range s {
					s[i], _ = t.Mean(c, "netkv-full", fmt.Sprintf("tier%d", i))
				}
				fmt.Fprintf(b, " %.0f/%.0f/%.0f/%.0f %% |", 100*s[0], 100*s[1], 100*s[2], 100*s[3])
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	ours("Placement that uses tiers 0 and 1.", "Prefill and decode in separate racks (the paper's), in one rack on separate servers, or on one server.", "open-placement", "placement", true)
	ours("KV compression.", "At which number format does the network stop to matter? Load in per cent of Table II's.", "open-compression", "format, load", false)
	ours("Streams a transfer.", "Not the paper's question, but the parameter that moves its gain most.", "open-streams", "streams, load", false)
	ours("Pipelined transfer.", "After the prefill (the paper's), by chunk of 2,048 tokens or by layer while it computes; transfer is what is left after the prefill.", "open-pipelining", "overlap, load", false)
	tenants(b, d)
}

// directions counts the predicted rows in which the same policy is faster as in the paper.
func directions(d *Data) (right, all int, wrong []string) {
	check := func(what string, paper, ours, ci float64) {
		all++
		// Below half a point in the paper, or within our interval, neither is faster.
		if paper*ours > 0 || math.Abs(paper) < 0.5 && math.Abs(ours) < max(0.5, ci) {
			right++
			return
		}
		wrong = append(wrong, fmt.Sprintf("%s (paper %+.1f %%, ours %+.1f %%)", what, paper, ours))
	}
	for _, row := range Table2()[1:] {
		for _, c := range row.Cells[:2] {
			v, ci := d.Tables["paper-table2"].Change([]string{row.Load}, "netkv-full", c.Policy, "ttft_mean", 0)
			check("Table II, "+row.Load+" against "+c.Policy, 100*(row.Cells[2].TTFT/c.TTFT-1), v, ci)
		}
	}
	for _, r := range Table3() {
		for _, base := range []string{"rr", "cla*"} {
			paper := r.VsRR
			if base == "cla*" {
				paper = r.VsCLA
			}
			v, ci := d.Tables["paper-table3"].Change([]string{r.Tokens}, "netkv-full", base, "ttft_mean", 0)
			check("Table III, "+r.Tokens+" tokens against "+base, paper, v, ci)
		}
	}
	for _, r := range Table4() {
		for i := range Ladder()[1:] {
			v, ci := d.Tables["paper-table4"].Change([]string{r.Profile}, Ladder()[i+1], Ladder()[i], "ttft_mean", 0)
			check(fmt.Sprintf("Table IV, %s, %s against %s", r.Profile, Ladder()[i+1], Ladder()[i]), 100*(r.TTFT[i+1]/r.TTFT[i]-1), v, ci)
		}
	}
	for _, r := range Table5() {
		if r.Packet {
			continue
		}
		v, ci := d.Tables["paper-table5"].Change([]string{r.GPUs}, "netkv-full", "cla*", "ttft_mean", 0)
		check("Table V, "+r.GPUs+" GPUs", r.TTFT, v, ci)
	}
	return right, all, wrong
}
