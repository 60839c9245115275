// Package experiment runs trials and writes their results. Run plays every policy on every seed
// of a scenario, in the packet world on labs side by side and then in the flow world, and fills
// a run folder. Simulate runs the flow world only.
//
// The trial is the unit: each has its own evidence, is judged separately, and is repeated
// separately when something outside of the experiment spoiled it. Play plays packet trials on
// labs; a sweep uses it too. Start reading at run.go, then lanes.go.
package experiment
