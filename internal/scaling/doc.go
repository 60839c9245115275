// Package scaling chooses how much the cluster is scaled down, and says what that changes.
//
// A scenario's rate scale S divides rates and bytes alike, so that times stay and the
// host has S times fewer packets to forward. The smallest S is the best emulation that
// the host can carry. What it can carry is a host.Capacity: packet-hops a second and core,
// measured by `netkvlab doctor --calibrate`, or cautious constants. What the scenario
// will ask for is a Demand: the flow world runs its trials, which takes milliseconds
// and whose times do not depend on S, and the bytes of its transfers fall into the
// windows of time that a run's fidelity is judged by. Choose brings the two together;
// it never picks a time scale, which is not neutral (docs/fidelity.md).
//
// Everything here is pure: the same scenario and host give the same choice. Start
// reading at choose.go.
package scaling
