// Package kvagent is the stub that stands for one model instance in the packet
// world: it waits as a prefill or decode engine would (package
// kvagent/engine) and really moves KV caches as TCP streams.
//
// # Where its edge is
//
// An agent runs inside the namespace of its node and knows nothing of the
// fabric: it is told addresses, source ports and what to do over a unix socket
// (package kvagent/control). It decides nothing: which request goes where is
// the controller's business, which path a source port takes the fabric's.
//
// # What it promises
//
//   - Count in = count out: a transfer is done when the receiver has read every
//     announced byte, at the time of the last one; every other end of it is a
//     Failed event with a reason. The sender hears of it by an acknowledgement of
//     each stream, and only then reuses the connection.
//   - A connection that saw a failure is closed, never reused.
//   - Model time is exact: events of the engine carry the time the model says,
//     however late the timer came. The worst lateness is in Status.
//   - Nothing outlives Serve: goroutines are joined, descriptors closed. A closed
//     connection leaves no TIME_WAIT behind, so source ports can be used again
//     at once and a namespace is free when its processes are gone.
//   - All sockets ask for their congestion control and DSCP themselves; no sysctl
//     is read or changed.
//
// Times on the wire are CLOCK_MONOTONIC, which all processes of a host share;
// paper time is (monotonic - epoch) / T.
//
// # Where to start reading
//
// Serve (the process), service (the calls), session (one trial), then driver
// (engine) and the data plane: frame (what is on the wire), pool and sender
// (outgoing), inlet and receiver (incoming).
package kvagent
