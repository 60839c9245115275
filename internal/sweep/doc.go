// Package sweep runs a grid of scenarios in the flow world: any keys of a scenario as
// axes, times policies, times seeds, on all cores. What is done is kept line by line,
// so that a sweep that was stopped goes on where it was.
//
// A sweep file names a scenario, the settings that hold everywhere, the axes with
// their values and, for the picture, a figure over two of the axes. Parse is strict
// and names file and line of every fault. Run writes its folder (cells.jsonl as it
// goes; table.csv, heatmap.txt and heatmap.svg at its end); what those hold follows
// from the sweep file alone, whatever the number of cores and interruptions, save
// where timeDecisions asks for wall-clock times. Start reading at file.go.
package sweep
