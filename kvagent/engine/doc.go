// Package engine is the instance model of a disaggregated LLM server: how a prefill and a decode instance use time
// and memory, as state machines that get the time from their caller.
//
// There is no clock, no goroutine and no randomness here. Every method takes now, the paper time since the trial's
// start; a driver with real timers and a simulator with virtual time run the same code and get the same outcome to
// the nanosecond. So a difference between two worlds is never a difference of two instance models.
//
// # Driving a machine
//
// Report what happens (Submit, Reserve, Arrive, Release, Cancel), ask Next for the instant of the next event, and
// collect with Advance the events up to now. After each command call Advance with the same now: commands may cause
// events at once. Advance may be called late or seldom; every event carries the exact model time at which it
// happened. An instant earlier than the latest one given counts as that latest one: time never runs backwards.
//
// # Limits
//
// The package knows tokens, blocks, bytes and durations; it does not know networks, requests' routes or policies.
// Bytes and durations are those of the modelled cluster ("paper units"), never of the emulation.
//
// Machines are not safe for concurrent use; each belongs to one goroutine.
//
// Start reading at Model, then Prefill, then Decode.
package engine
