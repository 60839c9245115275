package results

// Attribution splits the gap between the flow and the packet world into steps. Each run in a
// chain adds one property of the packet world, so every step is a measured difference between
// two runs. docs/results.md describes the stages.
type Attribution struct {
	// Seeds are the packet run's. Levels, steps and gaps are only over these, paired by request.
	Seeds     []uint64    `json:"seeds"`
	WideSeeds int         `json:"wide_seeds"` // the number of seeds of the wide figures
	Means     []Waterfall `json:"means"`      // one per policy and metric, in ms
	// Gains has one per comparison and metric, in percentage points of the gain.
	Gains     []Waterfall     `json:"gains"`
	Decisions []DecisionCount `json:"decisions"`
	// Transport compares packet transfers with their fluid counterparts by class, per policy and
	// for all policies together.
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

	// Requests counts the requests that completed in every stage and are compared, NotCompared the
	// packet run's other requests.
	Requests    int    `json:"requests"`
	NotCompared int    `json:"not_compared"`
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
	// BackUnknown counts transfers with unknown paths of acknowledgements, which may have met
	// others.
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
