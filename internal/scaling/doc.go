// Package scaling chooses how much the cluster is scaled down, and reports what that changes.
//
// A scenario's rate scale S divides both rates and bytes, so that times stay and the host
// forwards S times fewer packets. The smallest S that the host can carry gives the best
// emulation. What the host can carry is a host.Capacity: packet-hops per second and core,
// measured by `netkvlab doctor --calibrate`, or cautious constants. What the scenario needs is a
// Demand: the flow world runs its trials, which takes milliseconds and whose times do not depend
// on S, and the bytes of its transfers are added to the time windows by which a run's fidelity
// is judged. Choose compares the two. It never chooses a time scale, since that changes results
// (docs/fidelity.md).
//
// Everything here is pure: the same scenario and host give the same choice. Start
// reading at choose.go.
package scaling
