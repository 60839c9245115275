package kernel

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netkvlab/netkvlab/fabric"
)

// Latency is the one-way latency, in paper time, that the links of a tier add up to;
// 0 where they have none of their own.
func (f *Fabric) Latency() [4]time.Duration {
	if !f.Features().Latency {
		return [4]time.Duration{}
	}
	return f.Plan().Latency
}

// Remarks says in sentences which latency and which marking the fabric emulates, and
// which it does not.
func (f *Fabric) Remarks() []string {
	var lack error
	if f.Plan().Delayed() && !f.Features().Latency {
		lack = Lacks("netem")
	}
	remarks := append([]string{latencyRemark(f.Plan(), lack)}, markRemarks(f.Plan())...)
	if f.Plan().Fair() {
		remarks = append(remarks, "switch ports serve the flows that wait in them in turn (topology.buffers.queueing: fair), which real ones do not; sharing is fairer than TCP's own")
	}
	return remarks
}

// latencyRemark describes the latency of a plan's links; lack is why this kernel cannot
// emulate any.
func latencyRemark(p *fabric.Plan, lack error) string {
	const floor = "the host's own forwarding, about 25 us per round trip"
	switch {
	case lack != nil:
		return fmt.Sprintf("link latency is not emulated, since this kernel cannot (%v); what remains is %s", lack, floor)
	case !p.Delayed():
		return fmt.Sprintf("link latency is not emulated, since it is under %v on every path through a switch; what remains is %s", fabric.MinLatency, floor)
	}
	var tiers []string
	for tier := range p.Latency {
		what := "none"
		if p.Latency[tier] > 0 {
			what = p.Latency[tier].String()
		}
		tiers = append(tiers, fmt.Sprintf("%s at tier %d", what, tier))
	}
	return fmt.Sprintf("link latency is emulated, one way %s; added to it is %s", strings.Join(tiers, ", "), floor)
}

// markRemarks gives the backlog from which queues mark.
func markRemarks(p *fabric.Plan) []string {
	var from []int
	for i := range p.Links {
		for _, s := range []*fabric.Shape{&p.Links[i].A.Shape, &p.Links[i].B.Shape} {
			if s.MarkBytes > 0 {
				from = append(from, s.MarkBytes)
			}
		}
	}
	if len(from) == 0 {
		return nil
	}
	least, most := slices.Min(from), slices.Max(from)
	if least == most {
		return []string{fmt.Sprintf("switch ports mark packets (ECN) from a backlog of %d bytes on", least)}
	}
	return []string{fmt.Sprintf("switch ports mark packets (ECN) from a backlog of %d to %d bytes on, by their rates", least, most)}
}
