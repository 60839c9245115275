package results

import "time"

// FormatVersion is the version of the run folder's format. It grows when a key
// changes its meaning; new keys do not change it.
const FormatVersion = 1

// The worlds a record can come from.
const (
	WorldPacket = "packet" // real packets through the emulated fabric
	WorldFlow   = "flow"   // max-min fair fluid model with its own decisions
	// WorldReplay is the fluid model given the packet run's decisions, starts and
	// paths: packet minus replay is transport, replay minus flow is decisions.
	WorldReplay = "replay"
)

// The states a record can have.
const (
	Completed  = "completed"
	Failed     = "failed"
	Incomplete = "incomplete" // the run was cut off
)

// Meta is what the records themselves do not say.
type Meta struct {
	Version  string // of netkvlab
	Scenario string // its name
	Seeds    []uint64
	Scale    Scale
	SLO      SLO
	Fidelity Fidelity
	// Interrupted says that the run was stopped before its end.
	Interrupted bool
	// Policies are the labels in the scenario's order. A policy without records
	// still appears in the summary. Labels found in records only come last, sorted.
	Policies []string
	// Worlds are the worlds that ran; ones found in records are added.
	Worlds []string
	// Baselines names the policies that gains are counted against, each with
	// every other policy. Empty means: each policy against each one listed before it.
	Baselines []string
}

// Scale is the scale in force, never auto.
type Scale struct {
	Rate float64 `json:"rate"` // S: emulated bytes and rates = paper's / S
	Time float64 `json:"time"` // T: emulated seconds = T x paper seconds
}

// SLO holds the thresholds in paper time; 0 means no threshold.
type SLO struct {
	TTFT, TBT time.Duration
}

// The verdicts, from best to worst.
const (
	VerdictGood     = "good"
	VerdictDegraded = "degraded"
	VerdictInvalid  = "invalid"
)

// Fidelity is the judgement on whether the emulation can be believed.
type Fidelity struct {
	Verdict string   `json:"verdict"` // good | degraded | invalid
	Reasons []string `json:"reasons"` // never null; empty when good
	// Notes say what a reader must know whatever the verdict: how many streams a
	// transfer had, and what this host leaves out of the emulation.
	Notes []string `json:"notes"` // never null
}
