package scenarios

// The allowed words of scenario keys, for code that branches on them.
const (
	WorkloadSynthetic = "synthetic"
	WorkloadTrace     = "trace"
	WorkloadFlows     = "flows"

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

	CongestionDCTCP = "dctcp"

	SeparationDSCP = "dscp"
	SeparationNone = "none"

	BackgroundUDP = "udp"

	RuntimeProcess = "process"
	RuntimeDocker  = "docker"
)
