package workload

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/scenarios"
)

// maxFlows bounds a list of explicit flows, as synthetic requests are bounded.
const maxFlows = 1_000_000

// LoadFlows returns the explicit transfers of a workload of kind flows, in
// start order (equal starts keep the file's order), with their draws. Whether the names and
// paths exist is for the plan's owner to check.
//
// A file holds one JSON object a line:
//
//	{"start_ms": 0, "from": "p0", "to": "d3", "bytes": 1000000, "via": ["tor0-0", ...]}
//
// with start_ms in paper milliseconds (0 when absent), bytes in paper bytes (a
// number, or text such as "1GB") and via optional. Unknown fields are refused, blank lines passed over; errors begin "file:line:".
func LoadFlows(s *scenarios.Scenario, seed uint64) ([]FlowRequest, error) {
	w := s.Workload
	if w.Kind != "flows" || w.Flows == nil {
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
		if list, err = readFlowFile(w.Flows.File); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, errors.New("workload.flows: no flow in list or file")
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

func readFlowFile(name string) (list []scenarios.Flow, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("workload.flows.file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return readFlows(f, name)
}

func readFlows(r io.Reader, name string) ([]scenarios.Flow, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var out []scenarios.Flow
	n := 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		f, err := parseFlow(line)
		if err == nil {
			err = checkFlow(f)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if out = append(out, f); len(out) > maxFlows {
			return nil, fmt.Errorf("%s:%d: more than %d flows", name, n, maxFlows)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, n+1, err)
	}
	return out, nil
}

// parseFlow reads one line of a flow file.
func parseFlow(line []byte) (scenarios.Flow, error) {
	var row struct {
		StartMS float64         `json:"start_ms"`
		From    string          `json:"from"`
		To      string          `json:"to"`
		Bytes   scenarios.Bytes `json:"bytes"`
		Via     []string        `json:"via"`
	}
	in := json.NewDecoder(bytes.NewReader(line))
	in.DisallowUnknownFields()
	if err := in.Decode(&row); err != nil {
		return scenarios.Flow{}, jsonError(err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return scenarios.Flow{}, errors.New("something follows the object: want one flow a line")
	}
	if !(row.StartMS >= 0 && row.StartMS <= 1e12) {
		return scenarios.Flow{}, fmt.Errorf("start_ms is %g: want 0 to 1e12", row.StartMS)
	}
	return scenarios.Flow{
		Start: time.Duration(row.StartMS * float64(time.Millisecond)), From: row.From, To: row.To,
		Bytes: row.Bytes, Via: row.Via,
	}, nil
}

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
