// Package controller decides: which prefill instance takes an arriving request,
// which decode instance takes its KV cache, what happens when something fails,
// and what is written down about it.
//
// A Driver is a state machine that is told the time and fed events; it answers
// with actions. It never sleeps, opens no socket and does not know whether the
// actions are carried out by real agents over real TCP or by a simulator, so
// a difference between two worlds is never a difference of their control plane.
// Times are paper time since the trial's start. Every draw a decision needs
// comes with the request (workload.Request), never from a shared stream: the
// first diverging decision would shift every later draw.
//
// The requests of a trial may belong to several tenants, whose schedulers decide without
// knowing of each other: tenants.go says what each is told.
//
// Serving drives prefill, transfer and decode; Flows replays explicit transfers.
// Neither is safe for concurrent use. Start reading at serving.go.
package controller
