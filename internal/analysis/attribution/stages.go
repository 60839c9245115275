// Package attribution finds the causes of the gap between the flow world and the packet world,
// with measured runs instead of guesses.
//
// # The chain
//
// A chain of runs leads from the NetKV paper's own network to real packets. Each run adds one
// property of the packet world, on the same requests:
//
//	tier       no topology: B_tier shared by a prefill instance's own transfers
//	random     max-min shares on the topology, each stream's path drawn anew
//	framing    the same paths, links carry frames
//	flow       the path that the request's own draw (or the pair, where sticky) names:
//	           the flow world as it is reported
//	decisions  the packet run's decode instances, in the flow world's own time
//	replay     the packet run's starts, payloads and paths too
//	packet     the packet run
//
// The difference between two neighbours is a step, so the steps add up to the whole gap. The
// first three steps are about models. Decisions and starts are about how far the two runs
// drifted apart (a completion that is one per cent later can send the next request elsewhere).
// Transport, from replay to packet, is about packets.
//
// A policy that uses no state decides the same in both worlds. Its decisions step is then
// exactly 0, because the two runs are the same. Round robin assigns instances in the order of
// prefill completions; two completions swap only if they are closer than the accuracy of the
// packet world's timers.
//
// # What is compared
//
// Compared are the requests that completed in every stage, paired by seed and id over the packet
// run's seeds (package analysis). The flow world's stages also run on more seeds, for the wide
// figures. Decisions are averaged differently, since more seeds would add other workloads: the
// packet run's decisions are compared with those of up to twenty flow-world runs with the same
// requests and other tie-break draws. This separates chance from cause.
//
// Transport is also split by class of transfer: see classes.go. A fluid has no acknowledgements,
// so the time that they wait behind others' data is a cost of transport. Transfers that were
// delayed by nothing else have their own class (ack-path). Times are paper milliseconds. Results
// depend only on the records and the scenario. Start reading at Explain.
package attribution

// Stage names one run of the chain.
type Stage string

// The stages, in order.
const (
	StageTier      Stage = "tier"
	StageRandom    Stage = "random"
	StageFraming   Stage = "framing"
	StageFlow      Stage = "flow"
	StageDecisions Stage = "decisions"
	StageReplay    Stage = "replay"
	StagePacket    Stage = "packet"
)

// Stages lists the chain.
func Stages() []Stage {
	return []Stage{StageTier, StageRandom, StageFraming, StageFlow, StageDecisions, StageReplay, StagePacket}
}

// stepName names the step that ends at a stage.
var stepName = map[Stage]string{
	StageRandom: "topology", StageFraming: "framing", StageFlow: "paths",
	StageDecisions: "decisions", StageReplay: "starts", StagePacket: "transport",
}

// flowOnly reports whether a stage needs no packet run. Such stages run on all seeds.
func flowOnly(s Stage) bool {
	return s == StageTier || s == StageRandom || s == StageFraming || s == StageFlow
}

const methods = "levels: mean (ms) or gain (%) of each stage over the requests that completed in every stage, over the packet run's seeds, paired by seed and id. " +
	"Stages: tier (the paper's model: no topology), random (max-min on the topology, paths drawn anew), framing (links carry frames), flow (the requests' own paths), " +
	"decisions (the packet run's decode instances in the flow world's time), replay (its starts, payloads and paths too), packet. " +
	"ci95: half width of the 95% interval by Student's t over the paired differences, gains linearised: over the means of 10 batches of each seed, with 10 seeds or more over the seeds' means. " +
	"wide: the step over all seeds of the flow world. " +
	"transport: ratios of packet over replay transfer times of completed transfers; excess_ms adds up to the mean difference of all completed requests. " +
	"alone: no other transfer on any of its links, or on its acknowledgements' way back, while it lasted; " +
	"ack-path: not slowed on its links, but its acknowledgements met the data of others on their way back; " +
	"classes of the transport step: its parts by class, in the step's unit, which add up to it"
