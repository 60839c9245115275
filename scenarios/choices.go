package scenarios

// The allowed words of scenario keys, for code that branches on them.
const (
	WorkloadSynthetic = "synthetic"
	WorkloadTrace     = "trace"
	WorkloadFlows     = "flows"

	RolePrefill = "prefill"
	RoleDecode  = "decode"
	RoleIdle    = "idle"

	PathsRandom = "random"
	PathsSticky = "sticky"
	PathsFresh  = "fresh"

	ModePush = "push"
	ModePull = "pull"

	OverlapNone  = "none"
	OverlapChunk = "chunk"
	OverlapLayer = "layer"

	QueueingFIFO = "fifo"
	QueueingFair = "fair"

	PriorityTransfers  = "transfers"
	PriorityBackground = "background"

	CongestionDCTCP = "dctcp"

	SeparationDSCP = "dscp"
	SeparationNone = "none"

	BackgroundUDP = "udp"

	RuntimeProcess = "process"
	RuntimeDocker  = "docker"
)

var workloadKinds = []string{WorkloadSynthetic, WorkloadTrace, WorkloadFlows}
