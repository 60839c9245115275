// Package report renders results for people: the text tables that the command
// line prints. It computes nothing; every figure comes from a results.Summary
// or from records. Output depends on its input alone (no clock, no terminal
// query), so the same run prints the same bytes.
package report
