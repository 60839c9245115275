// Package packetworld is the packet world: trials on the emulated fabric of a lab, with
// real agents and real TCP.
//
// Configure gives a lab's agents their roles and the source ports of every path. A World
// then plays trials one after the other: it sends a controller's actions to the agents and
// turns their reports into events. It decides nothing. With a trial's records it returns the
// Evidence by which they are judged.
//
// Paper time comes from the host's monotonic clock, which the agents read too: paper = (now
// - epoch) / T. Durations in records come from the agents' own timestamps, so a late
// wake-up here delays a decision but never changes a measurement. Start reading at
// world.go, then trial.go.
package packetworld
