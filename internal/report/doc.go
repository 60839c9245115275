// Package report renders results as the text tables that the command line prints. It computes no
// figures; they all come from a results.Summary or from records. Output depends only on the
// input (no clock, no terminal query), so the same run prints the same bytes.
package report
