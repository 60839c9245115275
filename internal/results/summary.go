package results

// Summary is summary.json. Times are paper units unless a key ends in _emulated. A figure that
// is not defined is absent: 0, NaN or -1 never mean "not known".
type Summary struct {
	Format      int      `json:"format"`
	Version     string   `json:"version"`
	Scenario    string   `json:"scenario"`
	Interrupted bool     `json:"interrupted"`
	Seeds       []uint64 `json:"seeds"`
	Scale       Scale    `json:"scale"`
	// Scaling lists what the scale does not preserve; absent if nothing was emulated.
	Scaling  []ScalingFigure `json:"scaling,omitempty"`
	SLO      SLOMS           `json:"slo"`
	Fidelity Fidelity        `json:"fidelity"`
	// Trials lists the packet world's trials with their verdicts; empty if nothing was emulated.
	Trials      []Trial                      `json:"trials"`
	Policies    []string                     `json:"policies"` // in the order of display
	Worlds      map[string]map[string]*Group `json:"worlds"`   // by world and policy label
	Gains       []Gain                       `json:"gains"`
	Attribution *Attribution                 `json:"attribution,omitempty"` // present when both worlds ran on requests
	// Violations are laws that records broke, at most 10 of them. Any makes the verdict invalid.
	ViolationCount int      `json:"violation_count"`
	Violations     []string `json:"violations,omitempty"`
	// Methods explains, in words, how the figures are computed.
	Methods Methods `json:"methods"`
}

// SLOMS are the thresholds in milliseconds; absent means no threshold.
type SLOMS struct {
	TTFTMS *float64 `json:"ttft_ms,omitempty"`
	TBTMS  *float64 `json:"tbt_ms,omitempty"`
}

// Methods gives the definitions of the figures, so that a summary can be understood without this program.
type Methods struct {
	Percentile string `json:"percentile"`
	CI95       string `json:"ci95"`
	Gains      string `json:"gains"`
	SLO        string `json:"slo_attainment"`
	Units      string `json:"units"`
}

// Group holds the figures of one policy in one world, over all seeds.
type Group struct {
	Requests Counts `json:"requests"`
	Reason   string `json:"reason,omitempty"` // why there are no figures: no request completed
	// FailureReasons counts the reasons of failed and incomplete requests.
	FailureReasons map[string]int `json:"failure_reasons,omitempty"`

	TTFT     *Stats `json:"ttft_ms,omitempty"`
	TBT      *Stats `json:"tbt_ms,omitempty"`
	Transfer *Stats `json:"transfer_ms,omitempty"`
	Queue    *Stats `json:"queue_ms,omitempty"` // sum of prefill wait and decode wait
	Prefill  *Stats `json:"prefill_ms,omitempty"`
	Decision *Stats `json:"decision_us,omitempty"` // wall time; absent if not measured

	SLOAttainment *float64 `json:"slo_attainment,omitempty"` // 0..1
	// TierShare is the share of transfers by tier, "0".."3"; absent without a transfer.
	TierShare map[string]float64 `json:"tier_share,omitempty"`
	Transfers int                `json:"transfers"` // completed requests with a decode instance, the base of TierShare
	// PeakTransfersIntoOne is the largest number of transfers into one decode instance at once.
	PeakTransfersIntoOne int `json:"peak_transfers_into_one"`

	BytesMoved           int64    `json:"bytes_moved"`            // emulated bytes that receivers counted
	PayloadBytes         int64    `json:"payload_bytes"`          // paper bytes due
	PayloadBytesEmulated int64    `json:"payload_bytes_emulated"` // emulated bytes due
	WastedBytesEmulated  int64    `json:"wasted_bytes_emulated"`  // of failed attempts
	Retransmits          int64    `json:"retransmits"`            // TCP segments sent again
	HitShare             *float64 `json:"hit_share,omitempty"`    // the share of prompt tokens of completed requests that are hits
}

// Counts obeys submitted = completed + failed + incomplete.
type Counts struct {
	Submitted  int `json:"submitted"`
	Completed  int `json:"completed"`
	Failed     int `json:"failed"`
	Incomplete int `json:"incomplete"`
}

// Stats describes one figure over the completed requests that have it.
type Stats struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	// CI95 is the half width of the mean's 95% interval; CIMethod is seeds-t or batch-means-t and
	// CIN the number of means in it. All three are absent when there is too little data.
	CI95     *float64 `json:"ci95,omitempty"`
	CIMethod string   `json:"ci95_method,omitempty"`
	CIN      int      `json:"ci95_n,omitempty"`
	Min      float64  `json:"min"`
	P50      float64  `json:"p50"`
	P90      float64  `json:"p90"`
	P99      float64  `json:"p99"`
	Max      float64  `json:"max"`
}

// The metrics of a Gain.
const (
	MetricTTFT     = "ttft_ms"
	MetricTransfer = "transfer_ms"
	MetricSLO      = "slo"
)

// Gain compares a policy with a baseline on the requests that both have, paired
// by seed and request. For times it is a relative change, where negative is
// faster; for slo a difference in percentage points, where positive is better.
type Gain struct {
	Policy   string `json:"policy"`
	Baseline string `json:"baseline"`
	Metric   string `json:"metric"` // ttft_ms | transfer_ms | slo
	Unit     string `json:"unit"`   // % | pp

	PacketPct  *float64 `json:"packet_pct,omitempty"`
	PacketCI95 *float64 `json:"packet_ci95,omitempty"`
	FlowPct    *float64 `json:"flow_pct,omitempty"`
	FlowCI95   *float64 `json:"flow_ci95,omitempty"`
	ReplayPct  *float64 `json:"replay_pct,omitempty"`
	// FlowPairedPct is the flow world's gain over only the packet run's seeds, if it ran more.
	FlowPairedPct  *float64 `json:"flow_paired_pct,omitempty"`
	FlowPairedCI95 *float64 `json:"flow_paired_ci95,omitempty"`

	// GapPP = packet - flow, over the packet run's seeds. With a replay it is TransportPP + DecisionsPP.
	GapPP       *float64 `json:"gap_pp,omitempty"`
	GapCI95     *float64 `json:"gap_ci95,omitempty"`
	TransportPP *float64 `json:"transport_pp,omitempty"`
	DecisionsPP *float64 `json:"decisions_pp,omitempty"`

	// Worlds says, per world, which requests the figure includes.
	Worlds map[string]GainBasis `json:"worlds"`
}

// GainBasis counts the requests behind a gain, so that a policy does not gain unnoticed by failures.
type GainBasis struct {
	Pairs int `json:"pairs"` // requests compared
	// Requests that did not complete: they are not compared (times) or count as missed (slo).
	PolicyNotCompleted   int    `json:"policy_not_completed"`
	BaselineNotCompleted int    `json:"baseline_not_completed"`
	CIMethod             string `json:"ci95_method,omitempty"`
	CIN                  int    `json:"ci95_n,omitempty"`
	Reason               string `json:"reason,omitempty"` // why there is no figure
}

// Attribution splits the gap between the flow and the packet world into steps. Each run in a
// chain adds one property of the packet world, so every step is a measured difference between
// two runs. docs/results.md describes the stages.
type Attribution struct {
	// Seeds are the packet run's. Levels, steps and gaps are only over these, paired by request.
	Seeds     []uint64        `json:"seeds"`
	WideSeeds int             `json:"wide_seeds"` // the number of seeds of the wide figures
	Means     []Waterfall     `json:"means"`      // one per policy and metric, in ms
	Gains     []Waterfall     `json:"gains"`      // one per comparison and metric, in percentage points of the gain
	Decisions []DecisionCount `json:"decisions"`
	// Transport compares packet transfers with their fluid counterparts, per policy and for all together.
	Transport []TransportClass `json:"transport"`
	// Alone is the check without a model of sharing; absent when no transfer was alone.
	Alone *AloneCheck `json:"alone,omitempty"`
	// Methods explains the figures in words.
	Methods string `json:"methods"`
}

// Waterfall leads from the paper's model to the packet world.
type Waterfall struct {
	Policy   string `json:"policy"`
	Baseline string `json:"baseline,omitempty"` // of a gain
	Metric   string `json:"metric"`             // ttft_ms | transfer_ms
	Unit     string `json:"unit"`               // ms | pp

	Requests    int    `json:"requests"`         // completed in every stage, and compared
	NotCompared int    `json:"not_compared"`     // the packet run's other requests
	Reason      string `json:"reason,omitempty"` // why there are no figures

	// Levels is the mean (ms) or the gain (%) of each stage, Steps the differences between
	// neighbours. All steps add up to Whole, which is packet - tier, and the last three to Gap,
	// which is packet - flow.
	Levels    []Level  `json:"levels"`
	Steps     []Step   `json:"steps"`
	Gap       *float64 `json:"gap,omitempty"`
	GapCI95   *float64 `json:"gap_ci95,omitempty"`
	Whole     *float64 `json:"whole,omitempty"`
	WholeCI95 *float64 `json:"whole_ci95,omitempty"`
}

// Level is the value of a stage.
type Level struct {
	Stage string  `json:"stage"`
	Value float64 `json:"value"`
}

// Step is the difference between two stages.
type Step struct {
	Name     string   `json:"name"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Value    float64  `json:"value"`
	CI95     *float64 `json:"ci95,omitempty"`
	CIMethod string   `json:"ci95_method,omitempty"`
	CIN      int      `json:"ci95_n,omitempty"`
	// Wide is the same step over all seeds of the flow world, for steps that need no packet run.
	// For decisions it is their stage minus the mean of up to 20 flow runs of the same requests
	// with other tie-break draws. One more such run would lie within WideCI95.
	Wide     *float64 `json:"wide,omitempty"`
	WideCI95 *float64 `json:"wide_ci95,omitempty"`
	// Classes splits the transport step by class of transfer: the parts add up to Value.
	Classes []ClassPart `json:"classes,omitempty"`
}

// ClassPart is one transfer class's part of a step, in the step's unit.
type ClassPart struct {
	Class string  `json:"class"`
	Value float64 `json:"value"`
}

// DecisionCount says how often the worlds chose different decode instances.
type DecisionCount struct {
	Policy    string `json:"policy"`
	Requests  int    `json:"requests"`  // with a decode instance in both worlds
	Different int    `json:"different"` // of these, with different ones
	// FirstDifferent is the first such request of each seed; seeds without one are absent.
	FirstDifferent map[uint64]int `json:"first_different,omitempty"`
}

// AllPolicies is the policy label of a TransportClass over all policies.
const AllPolicies = "all"

// TransportClass describes the transfers of one class. A ratio is the time in the packet world
// divided by the time in its replay.
type TransportClass struct {
	Policy string  `json:"policy"` // a label, or all
	Class  string  `json:"class"`
	N      int     `json:"n"`
	P50    float64 `json:"ratio_p50"`
	P90    float64 `json:"ratio_p90"`
	// ExcessMS is the class's part of the difference of the mean transfer between packet and
	// replay. The parts of a policy's classes add up to that difference.
	ExcessMS float64 `json:"excess_ms"`
}

// AloneCheck compares transfers that met no other with the time of their frames at the links'
// rates. It needs no model of sharing between transfers. The streams of one transfer still
// compete, and the transfer ends with its slowest stream. With one stream (Streams 1) the
// difference comes only from the emulation.
type AloneCheck struct {
	AloneFigures
	LimitP50Pct float64 `json:"limit_p50_pct"`
	LimitP99Pct float64 `json:"limit_p99_pct"`
	Within      bool    `json:"within"`  // both limits are kept
	Streams     int     `json:"streams"` // the most streams of one transfer
	// BackUnknown counts transfers with unknown paths of acknowledgements, which may have met others.
	BackUnknown int `json:"back_unknown,omitempty"`
	// Tiers has the same figures for each tier, "0" to "3", that has such transfers.
	Tiers map[string]AloneFigures `json:"tiers"`
}

// AloneFigures are deviations from ideal in percent, never negative.
type AloneFigures struct {
	N      int     `json:"n"`
	P50Pct float64 `json:"p50_pct"` // of the median
	P99Pct float64 `json:"p99_pct"` // not exceeded by 99% of the transfers
}
