package report

import (
	"io"

	"github.com/netkvlab/netkvlab/internal/results"
)

// Options say how to render.
type Options struct {
	// Width is the terminal's width in columns; 0 means 100. Tables never
	// exceed it by wrapping: less important columns are left out instead.
	Width int
	// Color marks verdicts with ANSI colours. Set it only for a terminal.
	Color bool
	// Folder is the run folder's path, shown at the end; empty shows none.
	Folder string
}

// Text prints the summary of a run.
func Text(w io.Writer, s *results.Summary, o Options) error { return nil }

// Flows prints one row an explicit flow, packet and flow world side by side.
func Flows(w io.Writer, records []results.Record, o Options) error { return nil }
