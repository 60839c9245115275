// Package kernel makes a fabric.Plan real on a Linux host, proves that the
// kernel holds what was planned, and takes it away again without a trace.
//
// # What it promises
//
// Every node becomes a network namespace /run/netns/LAB.NODE; the host's own
// network is never touched: no interface, address, route, rule, qdisc or
// sysctl of it changes. The folder /run/netns becomes a shared mount, as "ip
// netns add" makes it, and stays one. Interfaces are born with both ends in their final
// namespaces (moving one costs 16 ms, a create 0.25 ms).
//
// What belongs to a lab is marked: the alias of a namespace's loopback
// interface is "netkvlab/LAB/ID/NODE" with a random ID, set before the
// namespace gets its name. Remove deletes what carries the mark and the name
// that the mark says, never by name alone; beside it only empty plain files
// that a killed Apply left where a namespace was to be mounted. Apply refuses
// with an *InUseError, changing nothing, when a name it needs is taken, and
// undoes everything when it fails or is cancelled.
//
// # Limits
//
// One-way latencies are not emulated here: the paper's are microseconds, below
// what a path of six veth hops costs by itself (24 to 44 us a round trip).
// Everything needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) and Linux; elsewhere
// each function returns an error that says so.
//
// # Where to start
//
// Apply in apply_linux.go is the order of events; wire_linux.go and
// tc_linux.go say what is asked of the kernel, verify_linux.go what is read
// back. Probe tells what a kernel lacks.
package kernel
