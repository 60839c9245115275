package scenarios

import "time"

// Scenario is one experiment as a user writes it: the cluster, its placement, the model and engine,
// the workload, how KV caches travel, and which policies are compared over which seeds. Load gives
// a Scenario with every default written out; nothing downstream fills in a value of its own.
//
// All sizes, rates and times are in paper units (the real cluster's); only Scale says how they
// shrink on this host. Fields whose name ends in Emulated are exempt.
type Scenario struct {
	// The lab's name; left out, it is the file's base name.
	Name        string     `yaml:"name" pattern:"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$" patternDoc:"1..40 of a-z, 0-9 and -, starting and ending in a letter or digit"`
	Description string     `yaml:"description,omitempty"` // Free text for people.
	Topology    Topology   `yaml:"topology"`              // The cluster: servers, switches, link rates.
	Placement   Placement  `yaml:"placement"`             // Which instances prefill and which decode.
	Model       Model      `yaml:"model"`                 // The model, for the KV bytes of a token and the GPUs of an instance.
	Engine      Engine     `yaml:"engine"`                // How long prefill and decode compute.
	Workload    Workload   `yaml:"workload"`              // What arrives.
	Transfer    Transfer   `yaml:"transfer"`              // How a KV cache crosses the network.
	Background  Background `yaml:"background"`            // Traffic of other tenants.
	Oracle      Oracle     `yaml:"oracle"`                // What the scheduler is told of the network, and how fresh it is.
	// The policies compared on identical requests: names, or mappings with a name. At least one (none needed with workload flows); labels unique.
	Policies []Policy `yaml:"policies" items:"0..64"`
	// Each seed is a separate repetition of every policy. At least one, unique.
	Seeds []uint64 `yaml:"seeds" items:"1..1000"`
	SLO   SLO      `yaml:"slo"`   // The thresholds that SLO attainment counts.
	Scale Scale    `yaml:"scale"` // How the cluster is mapped onto this host.
	// Where agents run: as processes in namespaces, or as Docker containers in the same ones.
	Runtime string `yaml:"runtime" enum:"process|docker"`
	Nodes   Nodes  `yaml:"nodes,omitempty"` // What runs on the instances.
	Limits  Limits `yaml:"limits"`          // What ends a run by itself.

	// Dir is where relative file names (Trace.File, Flows.File, Policy.Weights) start: the
	// scenario file's folder, or the current one for an embedded scenario. Load
	// makes those names absolute and reads the weights, so only users of Parse need it (see Resolve).
	Dir string `yaml:"-"`
}

// Nodes say what runs on the instances.
type Nodes struct {
	// Container image of an agent of your own, for prefill and decode instances under runtime docker; it must be on the host, none is pulled. It speaks the protocol of docs/agent-protocol.md. Left out: netkvlab's own agent.
	Image string `yaml:"image,omitempty" pattern:"^[a-z0-9][a-zA-Z0-9._/:@-]{0,254}$" patternDoc:"an image's name, as in docker run"`
}

// Topology is a three-layer fat-tree: instances under top-of-rack switches, racks under the pod's
// aggregation switches, pods under core switches. Aggregation switch a of every pod connects to the
// same CoresPerAgg core switches, so there are AggsPerPod x CoresPerAgg cores.
type Topology struct {
	Pods           int `yaml:"pods" range:"1..64"`           // Pods in the cluster.
	RacksPerPod    int `yaml:"racksPerPod" range:"1..64"`    // Racks in a pod, each with one top-of-rack switch.
	ServersPerRack int `yaml:"serversPerRack" range:"1..64"` // Servers in a rack.
	GPUsPerServer  int `yaml:"gpusPerServer" range:"1..16"`  // GPUs in a server, a multiple of model.tensorParallel.
	AggsPerPod     int `yaml:"aggsPerPod" range:"1..32"`     // Aggregation switches in a pod: the uplinks of a rack.
	CoresPerAgg    int `yaml:"coresPerAgg" range:"1..32"`    // Core links of an aggregation switch.
	// NICs of an instance: 1, or up to model.tensorParallel (rail style, one per GPU).
	NICsPerInstance int           `yaml:"nicsPerInstance" range:"1..16"`
	NICRate         BitsPerSecond `yaml:"nicRate" range:"1Mbps..10Tbps"` // Rate of one NIC.
	// Rate of tier 0, between instances of one server.
	NVLinkRate BitsPerSecond `yaml:"nvlinkRate" range:"1Mbps..100Tbps"`
	// Host capacity over uplink capacity. linkRates says the same in another way: give either one, both are written out. If both are given they must agree within 0.1%.
	Oversubscription Oversubscription `yaml:"oversubscription"`
	LinkRates        LinkRates        `yaml:"linkRates"` // Rates of single links above the hosts; instead of oversubscription.
	// One-way latency of each tier: for the oracle, for the flow world, and, from 50 us of this host's time on, for the emulated links where the kernel has netem (tier0: never). Must not fall from tier1 to tier3.
	Latency TierLatency `yaml:"latency"`
	Buffers Buffers     `yaml:"buffers"` // Bounds of the queues.
}

// Oversubscription is host capacity over uplink capacity, both counted from
// the hosts: {rack: 2, pod: 4} turns 100 Gbps NICs into the paper's 50 and 25.
type Oversubscription struct {
	Rack float64 `yaml:"rack" range:"0.125..64"` // A rack's NICs over its uplinks.
	Pod  float64 `yaml:"pod" range:"0.125..64"`  // A pod's NICs over its core links.
}

// LinkRates are the rates of single links above the hosts.
type LinkRates struct {
	// Each link from a top-of-rack switch to an aggregation switch.
	RackUplink BitsPerSecond `yaml:"rackUplink" range:"1Mbps..100Tbps" default:"from oversubscription.rack" derived:"true"`
	// Each link from an aggregation switch to a core switch.
	CoreLink BitsPerSecond `yaml:"coreLink" range:"1Mbps..100Tbps" default:"from oversubscription.pod" derived:"true"`
}

// TierLatency is the one-way latency of each tier (NetKV paper, "Four-Tier Fat-Tree Model").
type TierLatency struct {
	Tier0 time.Duration `yaml:"tier0" range:"0s..1s"` // Within a server.
	Tier1 time.Duration `yaml:"tier1" range:"0s..1s"` // Within a rack.
	Tier2 time.Duration `yaml:"tier2" range:"0s..1s"` // Within a pod.
	Tier3 time.Duration `yaml:"tier3" range:"0s..1s"` // Across pods.
}

// Buffers bound the queues of the emulated ports. They are emulated sizes:
// packets do not shrink with the rate scale. 0 means auto.
type Buffers struct {
	// How a switch port serves the flows that wait in it: fifo (in order of arrival, as switches do) or fair (in turn, from up to 256 queues on which flows are spread by a hash of addresses and ports: what sharing would be without TCP's unfairness, to tell that from everything else). The flow world has no queues and is the same under both.
	Queueing string `yaml:"queueing" enum:"fifo|fair"`
	// Which kind of traffic a switch port serves first, by DSCP: transfers or background; the other kind gets what is left. Needs background and oracle.separation dscp. Left out: background is sure of the share that it asks for, and transfers of the rest.
	Priority string `yaml:"priority,omitempty" enum:"transfers|background"`
	// A switch port's queue. auto: max(64 KiB, 5 ms of the port's rate). With queueing fair each flow's queue holds an eighth of it, but at least 64 KiB if it is as large; together they may hold more.
	SwitchEmulated Bytes `yaml:"switchEmulated" range:"4KiB..1GiB" auto:"true"`
	// An instance's own egress queue. auto: 4 MB.
	HostEmulated Bytes `yaml:"hostEmulated" range:"4KiB..1GiB" auto:"true"`
	// Backlog from which a switch port marks packets (ECN) instead of dropping, only with transfer.congestionControl dctcp. auto: 20 full packets, 65 at 10 Gbit/s, or 0.17 of bandwidth times round trip, whichever is most, but at most a quarter of the queue.
	ECNThresholdEmulated Bytes `yaml:"ecnThresholdEmulated" range:"4KiB..1GiB" auto:"true"`
	// Segments a sender hands down at once (gso_max_segs). auto: 2 while the narrowest link has up to 12.5 Mbit/s emulated, 8 from 100 Mbit/s on, 4 between.
	SegmentsPerBurst int `yaml:"segmentsPerBurst" range:"1..64" auto:"true"`
}

// Placement says which instances prefill and which decode: either Unit and
// Pattern, or the lists Prefill and Decode. With workload flows it may be
// empty: then every instance is idle and called i0, i1, ...
type Placement struct {
	// What a step of the pattern covers: rack with [prefill, decode] alternates whole racks (the paper's cluster, no tier 0 or 1 transfers); instance mixes roles within a server.
	Unit string `yaml:"unit,omitempty" enum:"instance|server|rack|pod"`
	// Roles repeated over the units of the cluster in pod, rack, server order.
	Pattern []string `yaml:"pattern,omitempty" enum:"prefill|decode|idle" items:"1..256"`
	// Instances that prefill, as 0-based indices in pod, rack, server order; instead of unit and pattern.
	Prefill []int `yaml:"prefill,omitempty" range:"0..4095" items:"1..4096"`
	// Instances that decode, likewise; the rest stay idle.
	Decode []int `yaml:"decode,omitempty" range:"0..4095" items:"1..4096"`
}

// Model gives the KV bytes of a token: Eq. 1 of the NetKV paper,
// 2 x layers x kvHeads x headDim x bytesPerElement, or for latent attention
// layers x latentDim x bytesPerElement, times Replication in both cases.
type Model struct {
	// A known model whose figures the keys below override; custom has none.
	Preset  string `yaml:"preset,omitempty" enum:"@models"`
	Layers  int    `yaml:"layers" range:"1..1000" default:"from preset"`  // Transformer layers.
	KVHeads int    `yaml:"kvHeads" range:"0..1024" default:"from preset"` // KV heads (not query heads); 0 with latentDim.
	HeadDim int    `yaml:"headDim" range:"0..4096" default:"from preset"` // Elements of a head; 0 with latentDim.
	// Elements of the latent vector that holds K and V (MLA); instead of kvHeads and headDim.
	LatentDim int `yaml:"latentDim,omitempty" range:"0..65536" default:"from preset"`
	// Number format of the cache; sets bytesPerElement: fp16 and bf16 2, fp8 1, int4 0.5 (scales not counted).
	KVDtype string `yaml:"kvDtype,omitempty" enum:"fp16|bf16|fp8|int4"`
	// Bytes of an element, where kvDtype does not fit.
	BytesPerElement float64 `yaml:"bytesPerElement" range:"0.125..8" default:"from kvDtype"`
	// Copies of the cache that travel. 1 unless each tensor-parallel rank pulls its own, as latent-attention engines may do: then set it to tensorParallel.
	Replication    int `yaml:"replication" range:"1..64"`
	TensorParallel int `yaml:"tensorParallel" range:"1..16"` // GPUs per instance.
}

// Engine is the instance model: how long prefill and decode compute.
type Engine struct {
	// A known set of compute times that the keys below override; custom starts from zero.
	Compute string        `yaml:"compute,omitempty" enum:"@engines"`
	Prefill PrefillEngine `yaml:"prefill"` // Compute of a prompt.
	Decode  DecodeEngine  `yaml:"decode"`  // Compute of an output token, and what an instance holds.
	// Tokens of a prefix-cache block (Mooncake: 512, and so for every trace).
	BlockTokens int `yaml:"blockTokens" range:"1..4096"`
}

// PrefillEngine gives the compute time of a prompt with L uncached tokens: base +
// perTokenNs x L + perTokenSquaredNs x L^2.
type PrefillEngine struct {
	// queue: one prompt at a time, first come first served; delay: any number at once, the paper's pure delay.
	Mode string `yaml:"mode" enum:"queue|delay" default:"from compute"`
	// Time of a prompt whatever its length.
	Base       time.Duration `yaml:"base" range:"0s..1h" default:"from compute"`
	PerTokenNs float64       `yaml:"perTokenNs" range:"0..1000000000" default:"from compute"` // Nanoseconds per token.
	// Nanoseconds per squared token.
	PerTokenSquaredNs float64 `yaml:"perTokenSquaredNs" range:"0..1000000" default:"from compute"`
}

// DecodeEngine gives the time of one iteration of a batch of b sequences that
// hold S tokens of context: base + perSequence x b + perContextTokenNs x S.
type DecodeEngine struct {
	MaxBatch int   `yaml:"maxBatch" range:"1..4096"`  // Most sequences of a batch: beta_max of Algorithm 1.
	Memory   Bytes `yaml:"memory" range:"1MB..100TB"` // KV memory of an instance.
	// Memory that a decision leaves free: m_min of Algorithm 1.
	MinFree Bytes `yaml:"minFree" range:"0B..100TB"`
	// Time of an iteration whatever the batch.
	Base        time.Duration `yaml:"base" range:"0s..1m" default:"from compute"`
	PerSequence time.Duration `yaml:"perSequence" range:"0s..1m" default:"from compute"` // Time per sequence.
	// Nanoseconds per token of context.
	PerContextTokenNs float64 `yaml:"perContextTokenNs" range:"0..1000000000" default:"from compute"`
}

// Workload is what arrives. Exactly one of Synthetic, Trace and Flows is set, as Kind says.
type Workload struct {
	// Which of the three sections holds: the one that is given, else synthetic.
	Kind string `yaml:"kind" enum:"synthetic|trace|flows"`
	// Tenants whose schedulers decide independently: each request is one's by an even draw, and none knows what another has under way until the instances report it. 1 with flows.
	Tenants   int        `yaml:"tenants" range:"1..64"`
	Synthetic *Synthetic `yaml:"synthetic,omitempty"` // Requests drawn from distributions.
	Trace     *Trace     `yaml:"trace,omitempty"`     // Requests replayed from a file.
	Flows     *Flows     `yaml:"flows,omitempty"`     // Explicit transfers, without any engine or policy.
}

// Synthetic generates requests. Profile fills the fields that a file leaves out.
type Synthetic struct {
	// The lengths and prefix sharing to start from. The figures are this project's (the NetKV paper does not give its own).
	Profile  string  `yaml:"profile,omitempty" enum:"@profiles"`
	Requests int     `yaml:"requests" range:"1..1000000"`                      // How many requests a trial has.
	Rate     float64 `yaml:"rate" range:"0.0001/s..100000/s" unit:"perSecond"` // Mean arrival rate of the whole cluster.
	// poisson: exponential gaps; bursty: gamma-distributed gaps.
	Arrivals string `yaml:"arrivals" enum:"poisson|bursty"`
	// Squared coefficient of variation of the gaps when bursty; 1 is Poisson.
	Burstiness float64      `yaml:"burstiness,omitempty" range:"0.01..1000" default:"4 when bursty"`
	Prompt     LengthTokens `yaml:"prompt"` // Prompt length.
	Output     LengthTokens `yaml:"output"` // Output length.
	Prefix     Prefix       `yaml:"prefix"` // Sharing of prompt prefixes.
}

// LengthTokens is a log-normal length with the given mean, cut to [Min, Max].
type LengthTokens struct {
	Mean float64 `yaml:"mean" range:"1..10000000" default:"from profile"` // Mean in tokens, before the cut.
	// Standard deviation of the logarithm; 0 makes all lengths equal.
	Sigma float64 `yaml:"sigma" range:"0..4" default:"from profile"`
	Min   int     `yaml:"min" range:"1..10000000" default:"from profile"` // Least length in tokens.
	Max   int     `yaml:"max" range:"1..10000000" default:"from profile"` // Greatest length in tokens.
}

// Prefix sharing: a Share of the requests begins with one of Groups common
// prefixes that covers Fraction of its prompt.
type Prefix struct {
	// Share of the requests that begin with a common prefix.
	Share float64 `yaml:"share" range:"0..1" default:"from profile"`
	// Number of common prefixes; at least 1 when share is above 0.
	Groups   int     `yaml:"groups" range:"0..1000000" default:"from profile"`
	Fraction float64 `yaml:"fraction" range:"0..1" default:"from profile"` // Part of the prompt that the prefix covers.
}

// Trace replays a file in Mooncake's JSONL format: timestamp (ms),
// input_length, output_length, hash_ids (a block of 512 tokens each).
type Trace struct {
	// The trace, relative to the scenario file (to the current folder for an embedded scenario).
	File        string        `yaml:"file" required:"true"`
	RateScale   float64       `yaml:"rateScale" range:"0.001..1000"`   // Divides the gaps: 2 replays twice as fast.
	Start       time.Duration `yaml:"start" range:"0s..10000h"`        // Start of the window, in trace time.
	Length      time.Duration `yaml:"length" range:"0s..10000h"`       // Length of the window, in trace time; 0s: to the end.
	MaxRequests int           `yaml:"maxRequests" range:"0..10000000"` // Most requests taken; 0: all.
	// Moves each arrival forward by a seeded uniform draw in [0, spread), in trace time: Mooncake's conversation trace has 3 s ticks.
	Spread       time.Duration `yaml:"spread" range:"0s..1h"`
	SkipBadLines bool          `yaml:"skipBadLines"` // Skip and count lines that do not parse, instead of refusing the file.
}

// Flows replays explicit transfers with no engine model around them.
type Flows struct {
	List []Flow `yaml:"list,omitempty" items:"0..10000"` // The transfers.
	// The transfers as JSONL, one object per line with the keys start_s, from, to, bytes, via; instead of list, and relative to the scenario file.
	File string `yaml:"file,omitempty"`
}

// Flow is one transfer. In JSON, Start is the key start_s, in seconds: see ReadFlows.
type Flow struct {
	Start time.Duration `yaml:"start" json:"-" range:"0s..10000h"` // When it starts, from the trial's start.
	// The sending instance by name: p0, d3, i7 (prefill, decode, idle; numbered within the role).
	From  string `yaml:"from" json:"from" required:"true"`
	To    string `yaml:"to" json:"to" required:"true"`                          // The receiving instance.
	Bytes Bytes  `yaml:"bytes" json:"bytes" range:"1B..1000TB" required:"true"` // Payload.
	// The switches crossed, in order (tor0-0, agg0-1, core1-0, ...); source ports are chosen so that the kernel routes it so. Left out: any path.
	Via []string `yaml:"via,omitempty" json:"via,omitempty" items:"1..5"`
}

// Transfer is how a KV cache crosses the network.
type Transfer struct {
	Streams int `yaml:"streams" range:"1..64" default:"model.tensorParallel"` // TCP connections of a transfer.
	// Bytes of a write; an emulated size, it does not shrink with the scale.
	Chunk Bytes         `yaml:"chunkEmulated" range:"1KiB..16MiB"`
	Setup time.Duration `yaml:"setup" range:"0s..10m"` // Fixed overhead before the first byte.
	// Which side starts the bytes: push (prefill sends) or pull (decode asks for them).
	Mode string `yaml:"mode" enum:"push|pull"`
	// Overlap with prefill: none (after it), chunk (pieces of overlapChunkTokens) or layer (a piece per layer).
	Overlap      string `yaml:"overlap" enum:"none|chunk|layer"`
	OverlapChunk int    `yaml:"overlapChunkTokens" range:"1..1000000"` // Tokens of a piece when overlap is chunk.
	DSCP         int    `yaml:"dscp" range:"0..63"`                    // DSCP mark of KV traffic, not the background's.
	// TCP congestion control, set per socket: cubic, reno, bbr, dctcp or what else the kernel offers. With dctcp, switch ports mark (topology.buffers.ecnThresholdEmulated).
	CongestionControl string `yaml:"congestionControl" pattern:"^[a-z][a-z0-9_-]{0,14}$" patternDoc:"a kernel's name of a congestion control, such as cubic, reno, bbr or dctcp"`
	// Equal-cost path of a stream: random (one draw per stream, the paper's ECMP), sticky (one per pair, as a persistent RDMA queue pair) or fresh (dialled anew).
	Paths     string        `yaml:"paths" enum:"random|sticky|fresh"`
	Integrity bool          `yaml:"integrity"`                // Checksum every payload.
	Timeout   time.Duration `yaml:"timeout" range:"1ms..24h"` // Time after which a transfer has failed.
	Retries   int           `yaml:"retries" range:"0..10"`    // Further attempts elsewhere after a failure.
}

// Background is traffic of other tenants between hosts that do not serve.
type Background struct {
	Utilization TierUtilization `yaml:"utilization"` // Target shares of link capacity; 0 everywhere is no background.
	// udp (constant), tcp (bulk, paced to the share) or tcp-onoff (bursts).
	Kind string `yaml:"kind" enum:"udp|tcp|tcp-onoff"`
	DSCP int    `yaml:"dscp" range:"0..63"` // DSCP mark, not the transfers'.
}

// TierUtilization is the target share of link capacity, 0..0.95.
type TierUtilization struct {
	Tier2 float64 `yaml:"tier2" range:"0..0.95"` // Of rack uplinks.
	Tier3 float64 `yaml:"tier3" range:"0..0.95"` // Of core links.
}

// Enabled reports whether any background traffic is asked for.
func (b Background) Enabled() bool { return b.Utilization.Tier2 > 0 || b.Utilization.Tier3 > 0 }

// Oracle is the operator-to-scheduler interface of the NetKV paper: four maps.
// The static three come from Topology; congestion is measured.
type Oracle struct {
	Refresh   time.Duration `yaml:"refresh" range:"10ms..24h"` // Period of the congestion samples: delta_oracle.
	Staleness time.Duration `yaml:"staleness" range:"0s..24h"` // Further delay before a sample is seen.
	Noise     float64       `yaml:"noise" range:"0..1"`        // Standard deviation added to each congestion value.
	Loss      float64       `yaml:"loss" range:"0..1"`         // Probability that a sample is lost.
	// dscp: own KV traffic is left out of congestion; none: n is 0 and congestion holds everything.
	Separation  string `yaml:"separation" enum:"dscp|none"`
	InFlightCap int    `yaml:"inFlightCap" range:"1..1024"` // Cap of the in-flight count n.
}

// Policy is a scheduling policy by name, with weights where it has any. In YAML a bare
// name is enough.
type Policy struct {
	Name string `yaml:"name" enum:"@policies" required:"true"` // One of the policies listed under Policies below.
	// Tells two variants of one policy apart in results.
	Label string `yaml:"label,omitempty" pattern:"^[A-Za-z0-9*][A-Za-z0-9*._=+-]{0,39}$" patternDoc:"1..40 of letters, digits and * . _ = + -" default:"the name"`
	// Weight of the prefix hit; cla and cla* only, and needed by cla*.
	CacheWeight float64 `yaml:"cacheWeight,omitempty" range:"0..1000" default:"1 for cla"`
	// Weight of the load; cla and cla* only, and needed by cla*.
	LoadWeight float64 `yaml:"loadWeight,omitempty" range:"0..1000" default:"1 for cla"`
	// The file with both weights that `netkvlab tune` wrote, instead of them and relative to the scenario file; cla and cla* only.
	Weights string `yaml:"weights,omitempty"`
}

// SLO are the thresholds that attainment counts.
type SLO struct {
	TTFT time.Duration `yaml:"ttft" range:"1ms..24h"` // Time to first token.
	TBT  time.Duration `yaml:"tbt" range:"10us..1h"`  // Mean time between tokens.
}

// Scale maps the paper's cluster onto this host.
type Scale struct {
	// S divides link rates and byte counts alike; auto lets netkvlab choose by what the host carries.
	Rate float64 `yaml:"rate" range:"1..100000" auto:"true"`
	// T stretches the clock: emulated seconds = T x paper seconds, and link rates are divided by T again. Not neutral below 1.
	Time float64 `yaml:"time" range:"0.1..100"`
}

// Limits end a run by themselves.
type Limits struct {
	// How long after the last arrival requests may take, in paper time.
	Drain time.Duration `yaml:"drain" range:"1s..24h"`
	// How often a trial of the packet world is repeated when something outside of the experiment disturbed it (other processes, a hypervisor, a CPU that stopped).
	Repeats int `yaml:"repeats" range:"0..10"`
}
