// Package kvagent is the stub of one model instance in the packet world: it takes the time of a prefill or decode
// engine (package kvagent/engine) and really moves KV caches as TCP streams.
//
// # What it does not do
//
// An agent runs inside the namespace of its node and knows nothing of the fabric: it receives addresses, source
// ports and commands over a unix socket (package kvagent/control). It decides nothing: the controller decides which
// request goes where, and the fabric decides which path a source port takes.
//
// # What it promises
//
//   - Bytes in = bytes out: a transfer is done when the receiver has read every announced byte, at the time of the
//     last one. Any other end is a Failed event with a reason. The receiver acknowledges each stream to the sender,
//     which reuses the connection only then.
//   - After a failure a connection is closed, never reused.
//   - Model time is exact: events of the engine carry the model's time, however late the timer came. Status has the
//     worst lateness.
//   - Nothing outlives Serve: goroutines are joined, descriptors closed. A closed connection leaves no TIME_WAIT
//     behind, so source ports can be used again at once and a namespace is free when its processes are gone.
//   - Each socket sets its own congestion control and DSCP; no sysctl is read or changed.
//
// Times on the wire are CLOCK_MONOTONIC, which all processes of a host share; paper time is (monotonic - epoch) / T.
//
// # Where to start reading
//
// Serve (the process), service (the calls), session (one trial), then driver (engine) and the data plane: frame
// (what is on the wire), pool and sender (outgoing), inlet and receiver (incoming).
package kvagent
