package scaling

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	// window is that of the fidelity verdict, in real time.
	window = host.Window
	// backgroundShare is the cost of a background packet relative to a packet of a transfer.
	// Background is many slow flows, each with its own timer at both ends. Measured at 20 % of all
	// links.
	backgroundShare = 2.2
	// coresPerAgent is the cost of an agent in addition to its packets: timers, records, control.
	// Each of 256 idle agents took 0.0003.
	coresPerAgent = 0.0005
	// coresPerDecoding is the cost of a decode instance while it computes: 80 steps per second,
	// each with a timer and an event. Measured with nine fabrics and almost no packets.
	coresPerDecoding = 0.0035
	// inRun is the factor from the packet-hops per core of a calibration to those of a run, at fewer
	// than eight segments per burst. The calibration is one process. In a run each agent is one, and
	// a host pays for the change from one to another, the more often the shorter bursts are. Measured
	// with 1, 3, 6 and 9 fabrics at S = 1600 on the slowest host so far, two virtual CPUs with
	// page-table isolation: 0.6; there 0.9 to 1.5 at eight segments. A faster host had 1.0 and more:
	// it is more idle than estimated.
	inRun = 0.6
	// atMostRequests and atMostTrials bound the estimate: a longer run counts as its beginning.
	atMostRequests, atMostTrials = 2000, 12
)

// Demand is the load of a scenario on a host at S = 1.
type Demand struct {
	// sets are the windows of the trials that run at the same time, one set after the other.
	sets [][]slot
	// background is the packet-hops per second of other tenants' traffic in all fabrics, agents the
	// number of agents in them.
	background float64
	agents     int
	fabrics    int // side by side
}

// slot is one window of the time.
type slot struct {
	hops     float64 // packets times hops at S = 1
	decoding float64 // decode instances that compute, over the time scale
}

// trialLoads is the load of each of a scenario's trials at S = 1.
type trialLoads struct {
	windows    [][]slot // by trial
	background float64
	agents     int
}

// Expect runs a scenario's trials in the flow world and adds up their loads for the given number
// of fabrics side by side.
func Expect(ctx context.Context, c *trials.Cluster, fabrics int) (*Demand, error) {
	l, err := foresee(ctx, c, fabrics)
	if err != nil {
		return nil, err
	}
	return l.sideBySide(fabrics), nil
}

// foresee runs the trials on all CPUs, at least atLeast of them if there are that many.
func foresee(ctx context.Context, c *trials.Cluster, atLeast int) (*trialLoads, error) {
	c, err := c.At(scenarios.Scale{Rate: 1, Time: c.Scenario.Scale.Time})
	if err != nil {
		return nil, err
	}
	p := c.Plan
	all := c.Trials(results.WorldFlow, c.Scenario.Seeds)
	all = all[:min(len(all), max(atLeast, atMostTrials))]
	out := &trialLoads{
		windows: make([][]slot, len(all)), background: background(c.Scenario, p),
		agents: len(p.Prefill) + len(p.Decode) + len(p.Background),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range all {
		g.Go(func() error {
			l, err := c.Load(t.Seed)
			if err != nil {
				return err
			}
			begin := &trials.Load{Requests: l.Requests[:min(len(l.Requests), atMostRequests)], Flows: l.Flows}
			records, err := trials.PlayLoad(ctx, trials.Flow{Cluster: c}, c, t, begin)
			if err != nil {
				return fmt.Errorf("estimate the load: %w", err)
			}
			out.windows[i] = windowsOf(p, records)
			return nil
		})
	}
	return out, g.Wait()
}

// sideBySide adds up the trials that run at the same time, one set after the other.
func (l *trialLoads) sideBySide(fabrics int) *Demand {
	d := &Demand{fabrics: fabrics, agents: fabrics * l.agents, background: float64(fabrics) * l.background}
	for set := range slices.Chunk(l.windows, fabrics) {
		var sum []slot
		for n, windows := range set {
			from := n * int(trials.Stagger/window)
			for i, w := range windows {
				for from+i >= len(sum) {
					sum = append(sum, slot{})
				}
				sum[from+i].hops += w.hops
				sum[from+i].decoding += w.decoding
			}
		}
		d.sets = append(d.sets, sum)
	}
	return d
}

// windowsOf adds the packet-hops of a trial's transfers to the windows in which they move, and
// counts the decode instances that compute in each window.
func windowsOf(p *fabric.Plan, records []results.Record) []slot {
	width := results.MS(window) / p.Scale.Time
	end := 0.0
	for i := range records {
		r := &records[i]
		end = max(end, r.TransferStartMS+r.TransferMS)
		if r.FinishMS != nil {
			end = max(end, *r.FinishMS)
		}
	}
	windows := make([]slot, int(math.Ceil(end/width)))
	decode(windows, p, records, width)
	for i := range records {
		r := &records[i]
		hops := 1.0 // an NVLink
		if r.Tier > 0 {
			hops = 2 * float64(r.Tier)
		}
		for _, st := range r.Streams {
			spread(windows, r.TransferStartMS/width, (r.TransferStartMS+st.LastMS)/width, host.AckShare*hops*float64(st.Bytes)/fabric.SegmentBytes)
		}
	}
	return windows
}

// spread adds an amount evenly from one time to another, both in windows.
func spread(windows []slot, from, to, amount float64) {
	to = min(to, float64(len(windows)))
	if to <= from {
		return
	}
	for w := int(from); w < len(windows) && float64(w) < to; w++ {
		windows[w].hops += amount * (min(to, float64(w+1)) - max(from, float64(w))) / (to - from)
	}
}

// background returns the packet-hops per second of other tenants' traffic at S = 1: both
// directions of the core links and uplinks at the configured shares, and the uplinks' amount
// once more for the access links of the background hosts.
func background(s *scenarios.Scenario, p *fabric.Plan) float64 {
	u := s.Background.Utilization
	var bits float64
	for i := range p.Links {
		l := &p.Links[i]
		switch l.Tier {
		case 2:
			bits += 2 * 2 * u.Tier2 * float64(l.Rate)
		case 3:
			bits += 2 * u.Tier3 * float64(l.Rate)
		}
	}
	return backgroundShare * bits / (8 * fabric.FrameBytes) / p.Scale.Time
}

// busy returns the cores needed at a scale by the set of trials that needs the most: on average,
// and in its busiest hundredth of windows. A light last set does not help the ones before it.
func (d *Demand) busy(perCore, rate float64) (mean, peak float64) {
	fixed := coresPerAgent*float64(d.agents) + d.background/rate/perCore
	mean, peak = fixed, fixed
	for _, windows := range d.sets {
		cores, sum := make([]float64, len(windows)), 0.0
		for i, w := range windows {
			cores[i] = fixed + w.hops/rate/window.Seconds()/perCore + coresPerDecoding*w.decoding
			sum += cores[i]
		}
		if len(cores) > 0 {
			mean, peak = max(mean, sum/float64(len(cores))), max(peak, highest(cores, peakShare))
		}
	}
	return mean, peak
}

// decode counts, per window, the decode instances that generate an answer.
func decode(windows []slot, p *fabric.Plan, records []results.Record, width float64) {
	busy := map[string][]bool{}
	for i := range records {
		r := &records[i]
		if r.TTFTMS == nil || r.FinishMS == nil {
			continue
		}
		if busy[r.Decode] == nil {
			busy[r.Decode] = make([]bool, len(windows))
		}
		first, last := int((r.ArrivalMS+*r.TTFTMS)/width), int(*r.FinishMS/width)
		for w := first; w <= last && w < len(windows); w++ {
			if !busy[r.Decode][w] {
				busy[r.Decode][w] = true
				windows[w].decoding += 1 / p.Scale.Time
			}
		}
	}
}

// highest returns the value that the given share of the values exceeds.
func highest(values []float64, share float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)-1-int(share*float64(len(s)))]
}
