// Package sweep runs a grid of scenarios in the flow world, and in the packet world if the file
// asks for it: any keys of a scenario as axes, times policies, times seeds. Each finished trial
// is written as one line, so that a stopped sweep can continue.
//
// A sweep file names a scenario, the settings of all cells, the axes with their values and, for
// the picture, a figure over two of the axes. Parse is strict and names file and line of every
// fault. Run writes its folder: cells.jsonl while it runs; table.csv, heatmap.txt and
// heatmap.svg at its end. In the flow world their contents depend only on the sweep file, not on
// the number of cores or on interruptions, unless timeDecisions asks for wall-clock times. Start
// reading at file.go.
package sweep
