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
	// Scaling lists what the scale does not preserve, compared with the unscaled cluster; absent if
	// nothing was emulated.
	Scaling  []ScalingFigure `json:"scaling,omitempty"`
	SLO      SLOMS           `json:"slo"`
	Fidelity Fidelity        `json:"fidelity"`
	// Trials lists the packet world's trials with their verdicts; empty if nothing was emulated.
	Trials      []Trial                      `json:"trials"`
	Policies    []string                     `json:"policies"` // in the order of display
	Worlds      map[string]map[string]*Group `json:"worlds"`   // by world and policy label
	Gains       []Gain                       `json:"gains"`
	Attribution *Attribution                 `json:"attribution,omitempty"` // present when both worlds ran on requests
	// Violations lists laws that records broke (at most 10 of them);
	// ViolationCount counts all. Any violation makes the verdict invalid.
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

// Methods gives the definitions of the figures, so that a summary can be understood without this
// program.
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

	BytesMoved           int64 `json:"bytes_moved"`            // emulated bytes that receivers counted
	PayloadBytes         int64 `json:"payload_bytes"`          // paper bytes due
	PayloadBytesEmulated int64 `json:"payload_bytes_emulated"` // emulated bytes due
	WastedBytesEmulated  int64 `json:"wasted_bytes_emulated"`  // of failed attempts
	Retransmits          int64 `json:"retransmits"`            // TCP segments sent again
	// HitShare is the share of prompt tokens of completed requests that are hits.
	HitShare *float64 `json:"hit_share,omitempty"`
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

	// GapPP = packet - flow, over the packet run's seeds. With a replay it splits into TransportPP (packet -
	// replay) and DecisionsPP (replay - flow).
	GapPP       *float64 `json:"gap_pp,omitempty"`
	GapCI95     *float64 `json:"gap_ci95,omitempty"`
	TransportPP *float64 `json:"transport_pp,omitempty"`
	DecisionsPP *float64 `json:"decisions_pp,omitempty"`

	// Worlds says, per world, which requests the figure includes.
	Worlds map[string]GainBasis `json:"worlds"`
}

// GainBasis counts the requests behind a gain, so that a policy does not gain unnoticed by
// failures.
type GainBasis struct {
	Pairs int `json:"pairs"` // requests compared
	// Requests that did not complete: they are not compared (times) or count as missed (slo).
	PolicyNotCompleted   int    `json:"policy_not_completed"`
	BaselineNotCompleted int    `json:"baseline_not_completed"`
	CIMethod             string `json:"ci95_method,omitempty"`
	CIN                  int    `json:"ci95_n,omitempty"`
	Reason               string `json:"reason,omitempty"` // why there is no figure
}
