package scenarios

// The allowed words of scenario keys, for code that branches on them.
const (
	// Workload.Kind.
	WorkloadSynthetic, WorkloadTrace, WorkloadFlows = "synthetic", "trace", "flows"
	// An instance's role in Placement.
	RolePrefill, RoleDecode, RoleIdle = "prefill", "decode", "idle"
	// Transfer.Paths, Mode and Overlap.
	PathsRandom, PathsSticky, PathsFresh    = "random", "sticky", "fresh"
	ModePush, ModePull                      = "push", "pull"
	OverlapNone, OverlapChunk, OverlapLayer = "none", "chunk", "layer"
	// CongestionDCTCP is the Transfer.CongestionControl for which switches mark packets.
	CongestionDCTCP = "dctcp"
	// Buffers.Queueing and Priority.
	QueueingFIFO, QueueingFair            = "fifo", "fair"
	PriorityTransfers, PriorityBackground = "transfers", "background"
	// Oracle.Separation.
	SeparationDSCP, SeparationNone = "dscp", "none"
	// BackgroundUDP is the default of Background.Kind.
	BackgroundUDP = "udp"
	// Scenario.Runtime.
	RuntimeProcess, RuntimeDocker = "process", "docker"
)

var workloadKinds = []string{WorkloadSynthetic, WorkloadTrace, WorkloadFlows}
