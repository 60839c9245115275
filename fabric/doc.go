// Package fabric says what the emulated network is: a three-layer fat tree of
// hosts and switches, its links, addresses, routes, shaping and equal-cost
// paths. A Plan is a value: New reads a scenario and a scale and nothing else,
// makes no system call, and gives the same plan for the same input, byte for
// byte. Package kernel makes a plan real; flowsim computes on the same plan.
//
// # The tree
//
// Each pair of instances of a server is joined by an NVLink (tier 0). Each instance
// has one or several NICs, every one a link to its rack's switch (tier 1,
// torP-R). A rack's switch has one uplink to each aggregation switch of its
// pod (tier 2, aggP-A). Aggregation switch A of every pod has one link to each
// core switch of group A (tier 3, coreA-C). All packets between two pods that
// climb to aggregation switch A therefore come down through aggregation
// switch A of the other pod, and a path is named by the pair (A, C).
//
// # Units
//
// Rates are bits per second of Ethernet frames without preamble, check sequence
// and inter-frame gap, which is what a Linux qdisc counts. A full TCP segment
// of 1448 bytes is a frame of 1514. Fields named Emulated, and all of Shape,
// hold what this host carries: the paper's rate divided by the rate scale and
// by the time scale.
//
// # Where to start
//
// Plan and its parts are in plan.go; New in build.go lays out nodes and links,
// shape.go decides bursts and buffers, routes.go fills the routing tables,
// paths.go enumerates equal-cost paths.
package fabric
