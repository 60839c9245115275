// Package experiment runs trials and writes them down. Run plays every policy on every
// seed of a scenario, in the packet world on labs side by side and in the flow world beside
// it, and fills a run folder; Simulate does the flow world's part alone.
//
// The trial is the unit: each carries its own evidence, is judged by itself, and is repeated
// by itself when something outside of the experiment spoiled it. Lanes is the part that
// plays packet trials on labs; a sweep uses it too. Start reading at run.go, then lanes.go.
package experiment
