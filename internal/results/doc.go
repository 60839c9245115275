// Package results is the run folder: one Record a request, the Summary computed
// from the records, and the files both live in (docs/results.md describes them
// for readers of the folder).
//
// A Summary is a pure function of records and Meta: the order of the records
// does not matter, and every figure can be recomputed from requests.jsonl. What
// cannot be known is absent, never 0 or NaN. Failures stay in sight: counts
// obey submitted = completed + failed + incomplete, failed requests miss their
// SLO, and each gain says how many requests it could not compare.
//
// Times are paper time in milliseconds and bytes paper bytes, unless a name
// ends in emulated.
//
// A Writer is safe for concurrent use; all else is plain data. Start reading at
// Record, then Summarize, then Create.
package results
