// Package results is the format of the run folder: one Record per request, the Summary of them,
// and the files that hold both (docs/results.md describes them for users). Package analysis
// computes a Summary.
//
// What cannot be known is absent, never 0 or NaN. Counts obey submitted =
// completed + failed + incomplete.
//
// Times are paper time in milliseconds and bytes are paper bytes, unless a name ends in
// emulated.
//
// A Writer is safe for concurrent use; all other types are plain data. Start reading at Record,
// then Create.
package results
