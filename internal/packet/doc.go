// Package packet is the packet world: it carries out a controller's actions by
// real agents over the emulated fabric and turns what they report into events.
//
// It decides nothing. Paper time is read off the host's monotonic clock, which
// the agents share: paper = (now - epoch) / T. Durations in records come
// from the agents' own stamps, so a late wake-up here delays a decision but never
// falsifies a measurement. Start reading at trial.go.
package packet
