// Package experiment runs a scenario's policies and seeds on a lab and fills the
// run folder. It owns the order of things: requests are generated once a seed and
// given to every policy, agents are reset between trials, and everything that costs
// CPU (path names, records, JSON) happens outside the timed part. Start at run.go.
package experiment
