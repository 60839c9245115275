// Package engine is the instance model of a disaggregated LLM server: what a
// prefill and a decode instance do with their time and memory, as state
// machines that are told the time.
//
// There is no clock, no goroutine and no randomness here. Every method takes
// now, the paper time since the trial's start; a driver with real timers and a
// simulator with virtual time run the same code and get the same outcome to
// the nanosecond. So a difference between two worlds is never a difference of
// two instance models.
//
// # Driving a machine
//
// Tell it what happens (Submit, Reserve, Arrive, Release, Cancel), ask Next for
// the next instant worth waking at, and collect with Advance what happened up
// to now. After each command call Advance with the same now: commands may
// cause events at once. Advance may be called late or seldom; every event
// carries the exact model time at which it happened. An instant earlier than
// one already told is taken as the latest told: time never runs backwards.
//
// # Edges
//
// The package knows tokens, blocks, bytes and durations; it does not know
// networks, requests' routes or policies. Bytes and durations are those of the
// modelled cluster ("paper units"), never of the emulation.
//
// Machines are not safe for concurrent use; each belongs to one goroutine.
//
// Start reading at Model, then Prefill, then Decode.
package engine
