package workload

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/netkvlab/netkvlab/scenarios"
)

// LoadFlows returns the explicit transfers of a workload of kind flows, in start order (equal
// starts keep the file's order), with their draws. A flow file is read and checked by the rules
// of scenarios (scenarios.ReadFlows): its faults are *scenarios.Error with file and line. For a
// file that cannot be read or has no flow, the error is an *InputError.
func LoadFlows(s *scenarios.Scenario, seed uint64) ([]FlowRequest, error) {
	w := s.Workload
	if w.Kind != scenarios.WorkloadFlows || w.Flows == nil {
		return nil, fmt.Errorf("workload.kind %q with workload.flows: want kind flows and its list or file", w.Kind)
	}
	if err := checkStreams(s); err != nil {
		return nil, err
	}
	list := w.Flows.List
	if w.Flows.File != "" {
		if len(list) > 0 {
			return nil, errors.New("workload.flows: give list or file, not both")
		}
		var err error
		if list, err = readFlowFile(s); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, &InputError{File: w.Flows.File, Err: errors.New("workload.flows has no flow")}
	}
	out := make([]FlowRequest, len(list))
	for i, f := range list {
		if err := checkFlow(f); err != nil {
			return nil, fmt.Errorf("workload.flows: flow %d: %w", i, err)
		}
		out[i] = FlowRequest{Start: f.Start, From: f.From, To: f.To, Bytes: f.Bytes, Via: f.Via}
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

// checkFlow is for scenarios made in Go, which are not validated yet.
func checkFlow(f scenarios.Flow) error {
	switch {
	case f.From == "" || f.To == "":
		return fmt.Errorf("from %q to %q: want two instance names", f.From, f.To)
	case f.From == f.To:
		return fmt.Errorf("from and to are both %q: a transfer needs two instances", f.From)
	case f.Bytes < 1:
		return fmt.Errorf("bytes is %d: want 1 or more", f.Bytes)
	case f.Start < 0:
		return fmt.Errorf("start is %v: want 0 or later", f.Start)
	}
	return nil
}
