// Package attribution says where the gap between the flow world and the packet world
// comes from, by runs and not by guesses.
//
// # The chain
//
// A chain of runs leads from the NetKV paper's own network to real packets. Each has
// one thing more of what the packet world has, on the same requests:
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
// What lies between neighbours is a step, so the steps add up to the whole gap. The
// first three are about models, decisions and starts about how far the two runs drifted
// apart (a completion that slips by a per cent sends the next request elsewhere), and
// transport, from replay to packet, about packets.
//
// A policy that looks at nothing decides alike in both worlds, and then its decisions
// step is 0 to the bit, because the two runs are one. Round robin deals instances in the order of prefill
// completions; only two that are closer than the packet world's timers can swap.
//
// # What is compared
//
// Requests that completed in every stage, paired by seed and id over the packet run's
// seeds (package analysis). The flow world's stages are run on more seeds as well; the
// wide figures are over those. Decisions are averaged in another way, since more seeds
// would bring more workloads: the packet run's are compared with those of up to twenty runs of the flow world that
// have the same requests and other tie-break draws. So chance and cause can be told apart.
//
// Transport is also cut by class of transfer: see classes.go. A fluid has no
// acknowledgements, so those that wait behind others' data on their way back are a cost of
// transport, with a class of its own (ack-path) where nothing else was in the way. Times are paper
// milliseconds. Results depend on the records and the scenario alone. Start reading at
// Explain.
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

// flowOnly says that a stage needs no packet run, so that it is run on all seeds.
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
