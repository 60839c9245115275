package results

import "time"

// FormatVersion of the run folder increases when a key changes its meaning; new keys do not change it.
const FormatVersion = 1

// The worlds a record can come from.
const (
	WorldPacket = "packet" // real packets through the emulated fabric
	WorldFlow   = "flow"   // max-min fair fluid model with its own decisions
	// WorldReplay is the fluid model with the packet run's decisions, starts and paths: packet
	// minus replay is transport, replay minus flow is decisions.
	WorldReplay = "replay"
)

// The states a record can have.
const (
	Completed  = "completed"
	Failed     = "failed"
	Incomplete = "incomplete" // the run was cut off
)

// Meta is what the records themselves do not contain.
type Meta struct {
	Version     string // of netkvlab
	Scenario    string // its name
	Seeds       []uint64
	Scale       Scale
	Scaling     []ScalingFigure // what the scale does not preserve; empty if nothing was emulated
	SLO         SLO
	Fidelity    Fidelity
	Trials      []Trial // the packet world's, in order
	Interrupted bool    // the run was stopped before its end
	// Policies are the labels in the scenario's order. A policy without records still appears in
	// the summary. Labels that occur only in records come last, sorted.
	Policies []string
	Worlds   []string // the worlds that ran; other worlds in the records are added
}

// Scale is the scale that was used, never auto.
type Scale struct {
	Rate float64 `json:"rate"` // S: emulated bytes and rates = paper's / S
	Time float64 `json:"time"` // T: emulated seconds = T x paper seconds
}

// ScalingFigure is a quantity that scaling does not preserve. Times are paper units.
type ScalingFigure struct {
	What     string  `json:"what"`
	Unit     string  `json:"unit"`     // packets | ms
	Unscaled float64 `json:"unscaled"` // in the unscaled cluster
	Scaled   float64 `json:"scaled"`   // as emulated
}

// SLO holds the thresholds in paper time; 0 means no threshold.
type SLO struct{ TTFT, TBT time.Duration }

// The verdicts, from best to worst.
const (
	VerdictGood     = "good"
	VerdictDegraded = "degraded"
	VerdictInvalid  = "invalid"
)

// Fidelity is the verdict on whether the emulation's results can be trusted.
type Fidelity struct {
	Verdict string   `json:"verdict"` // good | degraded | invalid
	Reasons []string `json:"reasons"` // never null; empty when good
	// Notes do not depend on the verdict: how many streams a transfer had, what this host cannot emulate.
	Notes []string `json:"notes"` // never null
	// Figures are the measurements behind the verdict; absent when nothing was emulated.
	Figures *FidelityFigures `json:"figures,omitempty"`
}

// Trial is one trial of the packet world: one policy on one seed.
type Trial struct {
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	Lab    string `json:"lab"` // in which it ran
	// Verdict, Reasons and Figures are those of the last attempt, the one that counts.
	Verdict  string           `json:"verdict"`
	Reasons  []string         `json:"reasons"` // never null
	Figures  *FidelityFigures `json:"figures,omitempty"`
	Attempts int              `json:"attempts"` // all attempts, including spoiled ones
	Spoiled  []SpoiledAttempt `json:"spoiled,omitempty"`
}

// SpoiledAttempt was repeated, because something outside of the experiment disturbed it. No figure contains it.
type SpoiledAttempt struct {
	Attempt int      `json:"attempt"` // from 1
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons"`
	File    string   `json:"file"` // its records, in the run folder
}

// FidelityFigures are a packet run's measurements of its own quality.
type FidelityFigures struct {
	Windows     int     `json:"windows"`      // of 250 ms
	BusyWindows int     `json:"busy_windows"` // those with the host less than 10 % idle
	IdlePct     float64 `json:"idle_pct"`
	SoftIRQPct  float64 `json:"softirq_pct"`
	StealPct    float64 `json:"steal_pct"`
	OthersPct   float64 `json:"others_pct"`    // the share of CPU time of processes that do not belong to the run
	TimerLateMS float64 `json:"timer_late_ms"` // the worst of any agent
	Retransmits int64   `json:"retransmits"`   // segments
	QueueDrops  int64   `json:"queue_drops"`   // packets, each of several segments
	// UnexplainedLossPct is the share of segments sent again without a drop in a shaped queue.
	UnexplainedLossPct float64 `json:"unexplained_loss_pct"`
	// BufferLimitedPct is the share of sending time in which senders waited for socket buffers.
	BufferLimitedPct float64 `json:"buffer_limited_pct"`
	RateExcessPct    float64 `json:"rate_excess_pct"` // how much a port served above its rate and burst
	// ServedPct is the share of its rate that a port with a constant queue carried in its best
	// window, for the worst such port; absent when there was none.
	ServedPct     float64         `json:"served_pct,omitempty"`
	StrayBytesPct float64         `json:"stray_bytes_pct"`  // how far a port's bytes were from the bytes of the recorded paths
	Oracle        []OracleFigures `json:"oracle,omitempty"` // what the scheduler knew about each tier that others used
	Calibration   *Calibration    `json:"calibration,omitempty"`
}

// OracleFigures compare, for one tier, background traffic with the oracle's reports.
type OracleFigures struct {
	Tier     int     `json:"tier"`
	AskedPct float64 `json:"asked_pct"` // of the links, by the scenario
	TruePct  float64 `json:"true_pct"`  // of the links, by the ports' counters, mean of all polls
	// ErrorPoints is the mean absolute error of the scheduler's value, in points, over the oracle's periods.
	ErrorPoints float64 `json:"error_points"`
}

// Calibration compares transfers on the empty fabric, before the trials, with the fluid model with framing.
type Calibration struct {
	Lone []LoneTransfers `json:"lone"` // by tier, ascending
	Pair *PairTransfers  `json:"pair,omitempty"`
}

// LoneTransfers had one stream and no other traffic.
type LoneTransfers struct {
	Tier   int     `json:"tier"`
	N      int     `json:"n"`
	OffPct float64 `json:"off_pct"` // the median; negative is faster than ideal
}

// PairTransfers are two equal transfers that start together on one path.
type PairTransfers struct {
	N int `json:"n"`
	// LastOffPct is the median for the end of both, FirstOffPct for the end of the first. The
	// latter shows how evenly TCP shares over this time.
	LastOffPct  float64 `json:"last_off_pct"`
	FirstOffPct float64 `json:"first_off_pct"`
}

// Machine is host.json: what a reader needs to judge or repeat a run. It holds no host, user or network names.
type Machine struct {
	Netkvlab     string `json:"netkvlab"` // version
	Go           string `json:"go"`
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Kernel       string `json:"kernel"`              // release, as uname -r
	CPUModel     string `json:"cpu_model,omitempty"` // absent where the kernel does not name it (most ARM machines)
	CPUs         int    `json:"cpus"`                // the logical CPUs of the host
	CPUsUsable   int    `json:"cpus_usable"`         // those on which this process may run
	MemoryBytes  int64  `json:"memory_bytes"`
	// CongestionControls are those that the kernel offers, CongestionControl is its default. A
	// run's sockets used the scenario's transfer.congestionControl.
	CongestionControls []string `json:"congestion_controls"`
	CongestionControl  string   `json:"congestion_control"`
	// Sysctls are the host's settings that affect the agents' TCP; missing ones are absent.
	Sysctls  map[string]string `json:"sysctls"`
	Runtimes map[string]string `json:"runtimes"` // maps a container runtime to its version; empty when none was used
}
