package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64 // seconds, for ended tests and packages
}

// laneEnded is the action of our own line among those of go test: Output is the lane's name,
// Elapsed its time including builds.
const laneEnded = "netkvlab-lane"

// outcome of a test; unknown means that it started but did not end.
type outcome uint8

const (
	unknown outcome = iota
	passed
	failed
	skipped
)

var outcomes = map[string]outcome{"pass": passed, "fail": failed, "skip": skipped}

// testID names a test. An empty test means the package itself: its build, its TestMain, its
// exit.
type testID struct{ pkg, test string }

// String leaves out most of the import path.
func (id testID) String() string { return id.pkg[strings.LastIndex(id.pkg, "/")+1:] + "." + id.test }

type result struct {
	outcome outcome
	output  []string
	seconds float64 // of the longest run
}

// tally collects results over any number of runs. It is not safe for concurrent use.
type tally struct {
	results map[testID]*result
	lanes   []lane
	live    io.Writer // package lines and failures are written here at once; may be nil
}

// lane is the time of a lane, over all its parts.
type lane struct {
	name    string
	seconds float64
}

func newTally() *tally { return &tally{results: make(map[testID]*result)} }

// read reads a whole event stream. It forwards lines that are not JSON (a crash of go test
// itself).
func (t *tally) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.print(lines.Text() + "\n")
			continue
		}
		t.add(e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read test events: %w", err)
	}
	return nil
}

func (t *tally) add(e event) {
	switch e.Action {
	case "build-output":
		t.print(e.Output)
		return
	case laneEnded:
		t.addLane(lane{e.Output, e.Elapsed})
		return
	}
	if e.Package == "" {
		return
	}
	id := testID{e.Package, e.Test}
	r := t.results[id]
	if r == nil {
		r = &result{}
		t.results[id] = r
	}
	switch e.Action {
	case "output":
		t.output(id, r, e.Output)
	case "pass", "fail", "skip":
		// A test that runs in several lanes keeps its worst result, except that a pass in one lane
		// outweighs a skip in another.
		o := outcomes[e.Action]
		r.seconds = max(r.seconds, e.Elapsed)
		if r.outcome == failed || r.outcome == passed && o == skipped {
			return
		}
		r.outcome = o
		if o == failed && e.Test != "" {
			t.print(strings.Join(r.output, ""))
		}
	}
}

// addLane adds to the lane's time, which has one part per module.
func (t *tally) addLane(part lane) {
	i := slices.IndexFunc(t.lanes, func(l lane) bool { return l.name == part.name })
	if i < 0 {
		t.lanes = append(t.lanes, part)
		return
	}
	t.lanes[i].seconds += part.seconds
}

func (t *tally) output(id testID, r *result, text string) {
	if id.test != "" {
		if !strings.HasPrefix(text, "=== ") { // RUN, PAUSE, CONT, NAME: not useful once the test has ended
			r.output = append(r.output, text)
		}
		return
	}
	if text != "PASS\n" && !strings.HasSuffix(text, "[no test files]\n") {
		t.print(text)
	}
}

func (t *tally) print(text string) {
	if t.live != nil {
		// If this fails, the terminal is closed and the error cannot be shown.
		_, _ = io.WriteString(t.live, text)
	}
}

// count counts tests and subtests. A package that failed with no failing test in it (it did not
// build, or crashed) counts as one failure, and so does each test that started but did not end.
func (t *tally) count(want outcome) int {
	n := 0
	blamed := make(map[string]bool)
	for id, r := range t.results {
		if id.test == "" {
			continue
		}
		got := r.outcome
		if got == unknown {
			got = failed
		}
		if got == failed {
			blamed[id.pkg] = true
		}
		if got == want {
			n++
		}
	}
	if want != failed {
		return n
	}
	for id, r := range t.results {
		if id.test == "" && (r.outcome == failed || r.outcome == unknown) && !blamed[id.pkg] {
			n++
		}
	}
	return n
}

// sorted returns the tests with that outcome in package and name order.
func (t *tally) sorted(want outcome) []testID {
	var ids []testID
	for id, r := range t.results {
		if id.test != "" && r.outcome == want {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b testID) int {
		return strings.Compare(a.pkg+"\x00"+a.test, b.pkg+"\x00"+b.test)
	})
	return ids
}

var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)\n?$`)

// reason is the last output of a test before it skipped.
func (t *tally) reason(id testID) string {
	r := t.results[id]
	for i := len(r.output) - 1; i >= 0; i-- {
		if m := logged.FindStringSubmatch(r.output[i]); m != nil && m[1] != "" {
			return m[1]
		}
	}
	return "no reason given"
}

// slowest returns the top-level tests that took longest, at most n and none under a second.
// Their times include subtests.
func (t *tally) slowest(n int) []testID {
	var ids []testID
	for id, r := range t.results {
		if id.test != "" && !strings.Contains(id.test, "/") && r.seconds >= 1 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b testID) int {
		return cmp.Or(cmp.Compare(t.results[b].seconds, t.results[a].seconds), strings.Compare(a.pkg+" "+a.test, b.pkg+" "+b.test))
	})
	return ids[:min(n, len(ids))]
}
