package workload

import (
	"time"

	"github.com/netkvlab/netkvlab/scenarios"
)

// FlowRequest is one explicit transfer, with its draws fixed in advance as in a Request.
type FlowRequest struct {
	ID       int           // position in start order, 0-based
	Start    time.Duration // paper time since the trial's start
	From, To string        // instance names: p0, d3, i7
	Bytes    scenarios.Bytes
	// Via lists the switches the path crosses, in order; empty leaves the path to PathDraws.
	Via       []string
	TieBreak  uint64
	PathDraws []uint64 // one per stream, as in Request
}
