package workload

import "fmt"

// InputError is a fault of the user's input: a trace or flow file that is missing, broken or
// empty. It is separate from faults of this program and host, since another file solves it.
type InputError struct {
	File string // as the scenario names it; "" when Err names it
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

// Unwrap returns the fault itself.
func (e *InputError) Unwrap() error { return e.Err }
