package workload

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/netkvlab/netkvlab/scenarios"
)

// LoadFlows returns the explicit transfers of a valid workload of kind flows, in start order (equal
// starts keep the file's order), with their draws. A flow file is read and checked by the rules
// of scenarios (scenarios.ReadFlows): its faults are *scenarios.Error with file and line. For a
// file that cannot be read or has no flow, the error is an *InputError.
func LoadFlows(s *scenarios.Scenario, seed uint64) ([]FlowRequest, error) {
	list, file := s.Workload.Flows.List, s.Workload.Flows.File
	if file != "" {
		var err error
		if list, err = readFlowFile(s); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, &InputError{File: file, Err: errors.New("workload.flows has no flow")}
	}
	out := make([]FlowRequest, len(list))
	for i, f := range list {
		out[i] = FlowRequest{Flow: f}
	}
	slices.SortStableFunc(out, func(a, b FlowRequest) int { return cmp.Compare(a.Start, b.Start) })
	for i := range out {
		out[i].ID = i
		out[i].TieBreak, out[i].PathDraws = draws(seed, i, s.Transfer.Streams)
	}
	return out, nil
}

func readFlowFile(s *scenarios.Scenario) (list []scenarios.Flow, err error) {
	name := s.Workload.Flows.File
	f, err := openInput("workload.flows.file", name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return s.ReadFlows(name, f)
}

// openInput opens a file that is the value of a scenario key.
func openInput(key, name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &InputError{Err: fmt.Errorf("%s: %w (relative names start at the scenario's folder; for an embedded scenario, at the current one)", key, err)}
	}
	return f, nil
}

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
