// Package flowsim computes how flows share a network when sharing is ideal: the flow-level
// counterpart of the packets that fabric/kernel carries, on a virtual clock.
//
// # The model
//
// A flow is a fluid that crosses all its links at once at one rate. Rates are max-min fair at every
// instant: no flow's rate can be raised without lowering that of a flow which is not faster.
// Equivalently, and this is what the tests check, no link carries more than its capacity and every
// flow has a bottleneck, which is a full link on which no flow is faster (or the flow is at its
// MaxRate). Rates change only when a flow starts or ends or a capacity is set, so a simulation is a
// sequence of such events and nothing in between.
//
// A flow counts once on a link, whatever it represents. TCP shares per
// connection, so a transfer of four streams is four flows here. As one flow it
// would get a quarter of its share in the packet world beside single streams.
//
// # What the model is not
//
// Flows are not stored and forwarded whole: three hops of 1 Gbps carry 125 MB in one second, not in
// three, and the position of the narrow hop does not matter. Shares are not fixed when a flow
// starts: when a flow ends, the flows that it held back speed up at once, and when one starts,
// others slow down. There is no window, loss, queue or disadvantage of new flows: their cost is the
// difference to the packet world.
//
// # Units and precision
//
// Bytes are payload bytes, rates bytes of payload per second, capacities bytes of frames per second
// (Options.Framing is the factor between them), all float64. Times are Instants, pairs of float64
// that keep 30 digits: a completion is as exact after a week as in the first second. Completion
// times are right to better than 1e-9 of a flow's duration.
//
// # Determinism
//
// The same calls give the same bits on every architecture: no loop ranges over
// a map, sums run in the order of flow IDs, and products are rounded before they
// are added (no fused multiply-add). Calls at one instant take effect together, so their order
// does not matter. Doubling all capacities halves all times, to the bit.
//
// # Speed
//
// An event recomputes only the flows whose rate may change: see the comment
// of solve.go. Events in steady state allocate nothing.
//
// # Where to start
//
// Network in network.go; events.go moves the clock, table.go holds links and flows, solve.go does
// the water-filling. plan.go puts a fabric.Plan's links and equal-cost paths into the network's
// terms, and the NetKV paper's own network without a topology. A Network is not safe for concurrent
// use; use one per goroutine.
package flowsim
