package workload

import "fmt"

// InputError is a fault of what the user gave: a trace or flow file that is missing,
// broken or empty. It is told apart from faults of this program and of the
// host since another file mends it.
type InputError struct {
	File string // as the scenario names it; "" when Err says which
	Line int    // 1-based; 0 for the file as a whole
	Err  error
}

// Error reads "trace.jsonl:14: timestamp is missing".
func (e *InputError) Error() string {
	switch {
	case e.File != "" && e.Line > 0:
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	case e.File != "":
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return e.Err.Error()
}

// Unwrap gives the fault itself.
func (e *InputError) Unwrap() error { return e.Err }
