// Package controller is the control plane of a trial. It decides which prefill instance takes an
// arriving request, which decode instance takes its KV cache, and what happens after a failure,
// and it writes the records.
//
// A Driver is a state machine: its inputs are the time and events, its outputs are actions. It
// never sleeps and opens no socket. It does not know whether real agents with real TCP or a
// simulator carry out its actions, so both worlds have the same control plane. Times are paper
// time since the trial's start. Every random draw of a decision comes with the request
// (workload.Request), never from a shared stream, where the first different decision would
// change every later draw.
//
// The requests of a trial may belong to several tenants, whose schedulers decide independently:
// tenants.go says what each of them knows.
//
// Serving drives prefill, transfer and decode; Flows replays explicit transfers.
// Neither is safe for concurrent use. Start reading at serving.go.
package controller
