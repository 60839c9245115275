package scenarios

import "time"

// Scenario is one experiment as a user writes it: the cluster, its placement,
// the model and engine, the workload, how KV caches travel, and which policies
// are compared over which seeds. Load gives a Scenario with every default
// written out; nothing downstream fills in a value of its own.
//
// All sizes, rates and times are in paper units (the real cluster's); only
// Scale says how they shrink on this host. Fields whose name ends in Emulated
// are exempt.
type Scenario struct {
	// Name is the lab's name: 1..40 of [a-z0-9-], starting and ending in a letter or digit.
	Name        string     `yaml:"name"`
	Description string     `yaml:"description,omitempty"`
	Topology    Topology   `yaml:"topology"`
	Placement   Placement  `yaml:"placement"`
	Model       Model      `yaml:"model"`
	Engine      Engine     `yaml:"engine"`
	Workload    Workload   `yaml:"workload"`
	Transfer    Transfer   `yaml:"transfer"`
	Background  Background `yaml:"background"`
	Oracle      Oracle     `yaml:"oracle"`
	// Policies are compared on identical requests; at least one, names unique.
	Policies []Policy `yaml:"policies"`
	// Seeds: each one is a separate repetition of every policy; at least one, unique.
	Seeds   []uint64 `yaml:"seeds"`
	SLO     SLO      `yaml:"slo"`
	Scale   Scale    `yaml:"scale"`
	Runtime string   `yaml:"runtime"` // process | docker
	Limits  Limits   `yaml:"limits"`
}

// Topology is a three-layer fat-tree: instances under top-of-rack switches,
// racks under the pod's aggregation switches, pods under core switches.
// Aggregation switch a of every pod connects to the same CoresPerAgg core
// switches, so there are AggsPerPod x CoresPerAgg cores.
type Topology struct {
	Pods           int `yaml:"pods"`           // 1..64
	RacksPerPod    int `yaml:"racksPerPod"`    // 1..64
	ServersPerRack int `yaml:"serversPerRack"` // 1..64
	GPUsPerServer  int `yaml:"gpusPerServer"`  // 1..16, a multiple of Model.TensorParallel
	AggsPerPod     int `yaml:"aggsPerPod"`     // 1..32: uplinks a rack
	CoresPerAgg    int `yaml:"coresPerAgg"`    // 1..32: core links an aggregation switch
	// NICsPerInstance is 1 (one NIC an instance) up to Model.TensorParallel (rail style, one a GPU).
	NICsPerInstance int           `yaml:"nicsPerInstance"`
	NICRate         BitsPerSecond `yaml:"nicRate"`
	// NVLinkRate is tier 0: between instances of one server.
	NVLinkRate BitsPerSecond `yaml:"nvlinkRate"`
	// Oversubscription and LinkRates are two ways to say the same; a file gives
	// one of them, and Load writes out both.
	Oversubscription Oversubscription `yaml:"oversubscription"`
	LinkRates        LinkRates        `yaml:"linkRates"`
	Latency          TierLatency      `yaml:"latency"`
	Buffers          Buffers          `yaml:"buffers"`
}

// Oversubscription is host capacity over uplink capacity, both counted from
// the hosts: {rack: 2, pod: 4} turns 100 Gbps NICs into the paper's 50 and 25.
type Oversubscription struct {
	Rack float64 `yaml:"rack"` // a rack's NICs / its uplinks; 0.125..64
	Pod  float64 `yaml:"pod"`  // a pod's NICs / its core links; 0.125..64
}

// LinkRates are the rates of single links above the hosts.
type LinkRates struct {
	RackUplink BitsPerSecond `yaml:"rackUplink"` // ToR to aggregation, each
	CoreLink   BitsPerSecond `yaml:"coreLink"`   // aggregation to core, each
}

// TierLatency is the one-way latency of each tier (notes, "Four-Tier Fat-Tree Model").
type TierLatency struct {
	Tier0 time.Duration `yaml:"tier0"`
	Tier1 time.Duration `yaml:"tier1"`
	Tier2 time.Duration `yaml:"tier2"`
	Tier3 time.Duration `yaml:"tier3"`
}

// Buffers bound the queues of the emulated ports. They are emulated sizes:
// packets do not shrink with the rate scale. 0 means auto: max(64 KiB, 5 ms of
// the port's rate) on switches, 4 MB on an instance's own egress.
type Buffers struct {
	SwitchEmulated Bytes `yaml:"switchEmulated"`
	HostEmulated   Bytes `yaml:"hostEmulated"`
	// SegmentsPerBurst bounds the segments a sender hands down at once
	// (gso_max_segs), 1..64; 0 means auto: 2 up to 25 Mbit/s emulated, else 4.
	SegmentsPerBurst int `yaml:"segmentsPerBurst"`
}

// Placement says which instances prefill and which decode.
type Placement struct {
	// Unit and Pattern repeat roles over the cluster in order: unit rack with
	// [prefill, decode] alternates whole racks (the paper's cluster, no tier 0
	// or 1 transfers); unit instance mixes roles within a server.
	Unit    string   `yaml:"unit,omitempty"`    // instance | server | rack | pod
	Pattern []string `yaml:"pattern,omitempty"` // of prefill | decode | idle
	// Prefill and Decode list instance indices explicitly instead (0-based,
	// in pod, rack, server order); the rest stay idle.
	Prefill []int `yaml:"prefill,omitempty"`
	Decode  []int `yaml:"decode,omitempty"`
}

// Model gives the KV bytes of a token: Eq. 1 of the notes,
// 2 x layers x kvHeads x headDim x bytesPerElement, or for latent attention
// layers x latentDim x bytesPerElement x replication.
type Model struct {
	Preset          string  `yaml:"preset,omitempty"` // see Presets; the fields below override it
	Layers          int     `yaml:"layers"`
	KVHeads         int     `yaml:"kvHeads"`
	HeadDim         int     `yaml:"headDim"`
	LatentDim       int     `yaml:"latentDim,omitempty"` // MLA: K and V in one latent vector; then KVHeads and HeadDim are 0
	BytesPerElement float64 `yaml:"bytesPerElement"`     // 2 fp16/bf16, 1 fp8, 0.5 int4
	Replication     int     `yaml:"replication"`         // copies that travel; 1 unless each TP rank needs its own
	TensorParallel  int     `yaml:"tensorParallel"`      // GPUs an instance
}

// Engine is the instance model: how long prefill and decode compute.
type Engine struct {
	Compute string        `yaml:"compute,omitempty"` // preset: paper-fit | h100-measured | h100-roofline | custom
	Prefill PrefillEngine `yaml:"prefill"`
	Decode  DecodeEngine  `yaml:"decode"`
	// BlockTokens is the prefix cache's block, 1..4096 tokens (Mooncake: 512).
	BlockTokens int `yaml:"blockTokens"`
}

// PrefillEngine: time = Base + PerToken x L + PerTokenSquared x L^2.
type PrefillEngine struct {
	Mode string        `yaml:"mode"` // queue: one prompt at a time, FIFO | delay: the paper's pure delay
	Base time.Duration `yaml:"base"`
	// PerTokenNs and PerTokenSquaredNs are in nanoseconds a token and a squared token.
	PerTokenNs        float64 `yaml:"perTokenNs"`
	PerTokenSquaredNs float64 `yaml:"perTokenSquaredNs"`
}

// DecodeEngine: one iteration of a batch of b sequences holding S tokens of
// context takes Base + PerSequence x b + PerContextToken x S.
type DecodeEngine struct {
	MaxBatch          int           `yaml:"maxBatch"` // beta_max, 1..4096
	Memory            Bytes         `yaml:"memory"`   // KV memory of an instance
	MinFree           Bytes         `yaml:"minFree"`  // m_min of Algorithm 1
	Base              time.Duration `yaml:"base"`
	PerSequence       time.Duration `yaml:"perSequence"`
	PerContextTokenNs float64       `yaml:"perContextTokenNs"`
}

// Workload is what arrives. Exactly one of Synthetic, Trace and Flows is set,
// as Kind says.
type Workload struct {
	Kind      string     `yaml:"kind"` // synthetic | trace | flows
	Synthetic *Synthetic `yaml:"synthetic,omitempty"`
	Trace     *Trace     `yaml:"trace,omitempty"`
	Flows     *Flows     `yaml:"flows,omitempty"`
}

// Synthetic generates requests. Profile (chatbot | rag | long-context) fills
// the fields that a file leaves out.
type Synthetic struct {
	Profile  string `yaml:"profile,omitempty"`
	Requests int    `yaml:"requests"` // 1..1000000
	// Rate is the mean arrival rate of the whole cluster, in requests a second.
	Rate     float64 `yaml:"rate"`
	Arrivals string  `yaml:"arrivals"` // poisson | bursty
	// Burstiness is the squared coefficient of variation of the gaps when
	// bursty (gamma-distributed gaps); 1 is Poisson.
	Burstiness float64      `yaml:"burstiness,omitempty"`
	Prompt     LengthTokens `yaml:"prompt"`
	Output     LengthTokens `yaml:"output"`
	Prefix     Prefix       `yaml:"prefix"`
}

// LengthTokens is a log-normal length with the given mean, cut to [Min, Max].
type LengthTokens struct {
	Mean  float64 `yaml:"mean"`
	Sigma float64 `yaml:"sigma"` // of the logarithm; 0 is constant
	Min   int     `yaml:"min"`
	Max   int     `yaml:"max"`
}

// Prefix sharing: a Share of the requests begins with one of Groups common
// prefixes that covers Fraction of its prompt.
type Prefix struct {
	Share    float64 `yaml:"share"`    // 0..1
	Groups   int     `yaml:"groups"`   // >= 1 when Share > 0
	Fraction float64 `yaml:"fraction"` // 0..1
}

// Trace replays a file in Mooncake's JSONL format: timestamp (ms),
// input_length, output_length, hash_ids (a block of 512 tokens each).
type Trace struct {
	File string `yaml:"file"` // relative to the scenario file
	// RateScale divides the gaps: 2 replays twice as fast.
	RateScale   float64       `yaml:"rateScale"`
	Start       time.Duration `yaml:"start"`       // window, in trace time
	Length      time.Duration `yaml:"length"`      // 0: to the end
	MaxRequests int           `yaml:"maxRequests"` // 0: all
	// Spread moves each arrival forward by a seeded uniform draw in [0, Spread):
	// Mooncake's conversation trace has 3 s ticks. In trace time.
	Spread       time.Duration `yaml:"spread"`
	SkipBadLines bool          `yaml:"skipBadLines"`
}

// Flows replays explicit transfers with no engine model around them.
type Flows struct {
	List []Flow `yaml:"list,omitempty"`
	File string `yaml:"file,omitempty"` // JSONL of the same records, relative to the scenario file
}

// Flow is one transfer. Its path, if given, lists the switches it crosses in
// order (tor0-0, agg0-1, core1-0, ...); source ports are chosen so that the
// kernel routes it so.
type Flow struct {
	Start time.Duration `yaml:"start" json:"-"`
	From  string        `yaml:"from" json:"from"` // instance name: p0, d3, i7
	To    string        `yaml:"to" json:"to"`
	Bytes Bytes         `yaml:"bytes" json:"bytes"`
	Via   []string      `yaml:"via,omitempty" json:"via,omitempty"`
}

// Transfer is how a KV cache crosses the network.
type Transfer struct {
	Streams           int           `yaml:"streams"`            // TCP connections; default one a TP rank; 1..64
	Chunk             Bytes         `yaml:"chunkEmulated"`      // bytes a write; default 64KiB
	Setup             time.Duration `yaml:"setup"`              // fixed overhead before the first byte
	Mode              string        `yaml:"mode"`               // push | pull
	Overlap           string        `yaml:"overlap"`            // none | chunk | layer
	OverlapChunk      int           `yaml:"overlapChunkTokens"` // tokens a piece when overlap is chunk
	DSCP              int           `yaml:"dscp"`               // 0..63
	CongestionControl string        `yaml:"congestionControl"`  // cubic | reno | bbr | dctcp | ...
	Paths             string        `yaml:"paths"`              // random | sticky | fresh
	Integrity         bool          `yaml:"integrity"`          // checksum every payload
	Timeout           time.Duration `yaml:"timeout"`            // of one transfer; then it fails
	Retries           int           `yaml:"retries"`            // further attempts elsewhere; 0..10
}

// Background is traffic of other tenants between hosts that do not serve.
type Background struct {
	Utilization TierUtilization `yaml:"utilization"`
	Kind        string          `yaml:"kind"` // udp (constant) | tcp (bulk, paced to the share) | tcp-onoff
	DSCP        int             `yaml:"dscp"` // 0..63, not the transfers'
}

// TierUtilization is the target share of link capacity, 0..0.95.
type TierUtilization struct {
	Tier2 float64 `yaml:"tier2"` // of rack uplinks
	Tier3 float64 `yaml:"tier3"` // of core links
}

// Enabled reports whether any background traffic is asked for.
func (b Background) Enabled() bool { return b.Utilization.Tier2 > 0 || b.Utilization.Tier3 > 0 }

// Oracle is the operator-to-scheduler interface of the notes: four maps.
// The static three come from Topology; congestion is measured.
type Oracle struct {
	Refresh     time.Duration `yaml:"refresh"`     // delta_oracle
	Staleness   time.Duration `yaml:"staleness"`   // further delay before a sample is seen
	Noise       float64       `yaml:"noise"`       // standard deviation added to each congestion value, 0..1
	Loss        float64       `yaml:"loss"`        // probability that a sample is lost, 0..1
	Separation  string        `yaml:"separation"`  // dscp: own KV traffic is excluded | none: n = 0, c holds everything
	InFlightCap int           `yaml:"inFlightCap"` // cap of n, default 16
}

// Policy is a scheduling policy by name, with weights where it has any. In YAML a bare
// name is enough.
type Policy struct {
	Name string `yaml:"name"`
	// Label tells two variants of one policy apart in results; default the name.
	Label       string  `yaml:"label,omitempty"`
	CacheWeight float64 `yaml:"cacheWeight,omitempty"` // cla
	LoadWeight  float64 `yaml:"loadWeight,omitempty"`  // cla
}

// SLO are the thresholds that attainment counts.
type SLO struct {
	TTFT time.Duration `yaml:"ttft"`
	TBT  time.Duration `yaml:"tbt"`
}

// Scale maps the paper's cluster onto this host.
type Scale struct {
	// Rate S divides link rates and byte counts alike; 0 means auto.
	Rate float64 `yaml:"rate"`
	// Time T stretches the clock: emulated seconds = T x paper seconds, link
	// rates are divided by T again. Not neutral when below 1.
	Time float64 `yaml:"time"`
}

// Limits end a run by themselves.
type Limits struct {
	// Drain is how long after the last arrival requests may take, in paper time.
	Drain time.Duration `yaml:"drain"`
}
