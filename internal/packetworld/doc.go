// Package packetworld is the packet world: trials on the emulated fabric of a lab, with
// real agents and real TCP.
//
// Configure gives a lab's agents their roles and the source ports of every path. A World
// then plays trials one after the other, carries a controller's actions out by the agents,
// and turns what they report into events. It decides nothing. With the records of a trial it
// gives the Evidence of what they are worth.
//
// Paper time is read off the host's monotonic clock, which the agents share:
// paper = (now - epoch) / T. Durations in records come from the agents' own stamps, so a
// late wake-up here delays a decision but never falsifies a measurement. Start reading at
// world.go, then trial.go.
package packetworld
