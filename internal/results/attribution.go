package results

// Attribution takes the gap between the flow and the packet world apart: a chain of
// runs, each with one thing more of what the packet world has, so that every step is
// a difference between two runs and not a guess. docs/results.md names the stages.
type Attribution struct {
	// Seeds are the packet run's: levels, steps and gaps are over these alone, paired by request.
	Seeds []uint64 `json:"seeds"`
	// WideSeeds is how many seeds the wide figures are over.
	WideSeeds int `json:"wide_seeds"`
	// Means has one waterfall a policy and metric, in ms.
	Means []Waterfall `json:"means"`
	// Gains has one a comparison and metric, in percentage points of the gain.
	Gains     []Waterfall     `json:"gains"`
	Decisions []DecisionCount `json:"decisions"`
	// Transport says what a packet transfer took over its fluid counterpart, by class,
	// a policy at a time and for all of them together.
	Transport []TransportClass `json:"transport"`
	// Alone is the check that needs no model of sharing; absent when no transfer was alone.
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

	// Requests completed in every stage and are compared; NotCompared are the
	// packet run's that did not.
	Requests    int    `json:"requests"`
	NotCompared int    `json:"not_compared"`
	Reason      string `json:"reason,omitempty"` // why there are no figures

	// Levels is the mean (ms) or the gain (%) of each stage, Steps what lies between
	// neighbours: they add up to Whole, which is packet - tier, and the last three to
	// Gap, which is packet - flow.
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
	// Wide is the same step over all seeds of the flow world, where no packet run is
	// needed for it. For decisions it is their stage minus the mean of up to 20 flow runs of the same
	// requests with other tie-break draws, and WideCI95 where one more of those would lie.
	Wide     *float64 `json:"wide,omitempty"`
	WideCI95 *float64 `json:"wide_ci95,omitempty"`
	// Classes splits the transport step by class of transfer: the parts add up to Value.
	Classes []ClassPart `json:"classes,omitempty"`
}

// ClassPart is the part of a step that one class of transfers makes, in the step's unit.
type ClassPart struct {
	Class string  `json:"class"`
	Value float64 `json:"value"`
}

// DecisionCount says how often both worlds chose alike.
type DecisionCount struct {
	Policy    string `json:"policy"`
	Requests  int    `json:"requests"`  // with a decode instance in both worlds
	Different int    `json:"different"` // of these, with another one
	// FirstDifferent is the first such request of each seed; seeds without one are absent.
	FirstDifferent map[uint64]int `json:"first_different,omitempty"`
}

// AllPolicies is the policy of a TransportClass over all of them.
const AllPolicies = "all"

// TransportClass describes the transfers of one class. A ratio is the time in the
// packet world over the time in its replay.
type TransportClass struct {
	Policy string  `json:"policy"` // a label, or all
	Class  string  `json:"class"`
	N      int     `json:"n"`
	P50    float64 `json:"ratio_p50"`
	P90    float64 `json:"ratio_p90"`
	// ExcessMS is the class's part of the mean transfer's difference between packet and
	// replay: over the classes of a policy it adds up to that difference.
	ExcessMS float64 `json:"excess_ms"`
}

// AloneCheck compares transfers that met no other with the time that frames at the
// links' rates take: no model of sharing between transfers is involved. A transfer of several
// streams still competes with itself, and ends with its slowest stream; with one
// stream (Streams 1) what is left is the emulation alone.
type AloneCheck struct {
	AloneFigures
	LimitP50Pct float64 `json:"limit_p50_pct"`
	LimitP99Pct float64 `json:"limit_p99_pct"`
	Within      bool    `json:"within"`  // both limits are kept
	Streams     int     `json:"streams"` // the most that one of the transfers had
	// BackUnknown are those whose acknowledgements' path is not known: they may have met others there.
	BackUnknown int `json:"back_unknown,omitempty"`
	// Tiers has the same figures for each tier, "0" to "3", that has such transfers.
	Tiers map[string]AloneFigures `json:"tiers"`
}

// AloneFigures are distances from ideal in percent, never negative.
type AloneFigures struct {
	N      int     `json:"n"`
	P50Pct float64 `json:"p50_pct"` // of the median
	P99Pct float64 `json:"p99_pct"` // which 99% of the transfers keep
}
