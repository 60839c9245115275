// Package flowrun runs single trials in the flow world, one scenario, policy and
// seed at a time, and says in figures what came out: the unit of work of sweeps,
// of tuning and of the tables of docs/paper.md.
//
// It writes no run folder and touches nothing of the host. A Case may be used by
// any number of goroutines at once; equal cases give equal figures. Times are in
// paper units, in milliseconds.
package flowrun
