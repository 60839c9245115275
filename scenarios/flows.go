package scenarios

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// maxFlowLine bounds a line of a flow file.
const maxFlowLine = 1 << 20

// maxFileFlows bounds a flow file, as synthetic requests are bounded.
const maxFileFlows = 1_000_000

// ReadFlows reads explicit transfers as JSONL, one object per line with the keys start_s (seconds
// from the trial's start; start_ms with milliseconds is read too), from, to, bytes (a number, or a
// text such as "1GB"), and optionally via (a list of switches). Blank lines are skipped, unknown
// keys refused. It checks the instances and switches against the scenario's cluster. All faults are
// reported, each as an *Error with its line.
func (s *Scenario) ReadFlows(filename string, r io.Reader) ([]Flow, error) {
	flows, lines, err := parseFlows(filename, r)
	if err != nil {
		return nil, err
	}
	f := &faults{file: filename}
	ends := newEndpoints(s)
	for i, flow := range flows {
		for _, problem := range ends.problems(flow) {
			f.addAt(lines[i], problem.key, "%s", problem.msg)
		}
	}
	return flows, f.join()
}

// parseFlows reads the flows of a file and the line of each.
func parseFlows(filename string, r io.Reader) (flows []Flow, lines []int, err error) {
	f := &faults{file: filename}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxFlowLine)
	line := 0
	for sc.Scan() {
		line++
		text := bytes.TrimSpace(bytes.TrimPrefix(sc.Bytes(), []byte("\xef\xbb\xbf")))
		if len(text) == 0 {
			continue
		}
		flow, err := parseFlow(text)
		if err != nil {
			f.addAt(line, "", "%v", err)
			continue
		}
		if len(flows) == maxFileFlows {
			f.addAt(line, "", "more than %d flows", maxFileFlows)
			break
		}
		flows, lines = append(flows, flow), append(lines, line)
	}
	switch err := sc.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		f.addAt(line+1, "", "line is longer than %d bytes", maxFlowLine)
	case err != nil:
		return nil, nil, fmt.Errorf("read flows %s: %w", filename, err)
	}
	return flows, lines, f.join()
}

func parseFlow(text []byte) (Flow, error) {
	var row struct {
		Seconds      *float64 `json:"start_s"`
		Milliseconds *float64 `json:"start_ms"`
		Flow
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&row); err != nil {
		return Flow{}, fmt.Errorf("not a flow (keys: start_s, from, to, bytes, via): %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Flow{}, errors.New("more than one object on the line")
	}
	start, err := flowStart(row.Seconds, row.Milliseconds)
	switch {
	case err != nil:
		return Flow{}, err
	case row.From == "" || row.To == "":
		return Flow{}, errors.New("from and to must name instances")
	case row.Bytes < 1:
		return Flow{}, fmt.Errorf("bytes must be at least 1, got %d", int64(row.Bytes))
	}
	row.Start = start
	return row.Flow, nil
}

// flowStart reads the start, which has two spellings.
func flowStart(seconds, milliseconds *float64) (time.Duration, error) {
	most := time.Duration(root().child("workload").child("flows").child("list").elem.child("start").hi.Int())
	key, value, unit := "start_s", seconds, time.Second
	switch {
	case seconds != nil && milliseconds != nil:
		return 0, errors.New("both start_s and start_ms are given; keep one")
	case milliseconds != nil:
		key, value, unit = "start_ms", milliseconds, time.Millisecond
	case seconds == nil:
		return 0, errors.New("start_s is missing")
	}
	if limit := float64(most) / float64(unit); *value < 0 || *value > limit {
		return 0, fmt.Errorf("%s must be 0..%s, got %s", key, formatFloat(limit), formatFloat(*value))
	}
	return time.Duration(math.Round(*value * float64(unit))), nil
}
