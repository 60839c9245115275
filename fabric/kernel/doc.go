// Package kernel builds a fabric.Plan on a Linux host, proves that the
// kernel holds what was planned, and removes it without a trace.
//
// # What it promises
//
// Every node becomes a network namespace /run/netns/LAB.NODE; the host's own
// network is never changed: none of its interfaces, addresses, routes, rules, qdiscs
// and sysctls. The folder /run/netns becomes a shared mount, as with "ip
// netns add", and remains one. Interfaces are created with both ends in their final
// namespaces (moving one costs 16 ms, creating one 0.25 ms).
//
// What belongs to a lab is marked: the alias of a namespace's loopback
// interface is "netkvlab/LAB/ID/NODE" with a random ID, set before the
// namespace gets its name. Remove deletes what carries both the mark and the name
// in the mark, never by name alone. It also deletes empty plain files
// that a killed Apply left where a namespace was to be mounted. When a name
// that Apply needs is taken, Apply fails with an *InUseError and changes nothing.
// It undoes everything when it fails or is cancelled.
//
// # Limits
//
// One-way latencies are emulated by netem from fabric.MinLatency on. Shorter ones, such
// as the paper's, are below the cost of six veth hops (24 to 44 us per round trip).
// Everything needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) and Linux; elsewhere
// each function returns an error that says so.
//
// # Where to start
//
// Apply in apply_linux.go has the order of events; wire_linux.go and
// queueing_linux.go make the requests to the kernel, verify_linux.go reads the
// result back. Probe finds out what a kernel lacks.
package kernel
