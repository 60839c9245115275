package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// rules are the requirements for a run.
type rules struct {
	allowed []*regexp.Regexp // reasons to skip that are accepted
	must    []string         // "package Test", package relative to the module
}

// loadRules reads both files; an empty name means an empty file. Then every skip is a problem,
// or no test is required.
func loadRules(allow, must string) (*rules, error) {
	r := &rules{}
	patterns, err := readLines(allow)
	if err != nil {
		return nil, err
	}
	for _, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", allow, err)
		}
		r.allowed = append(r.allowed, re)
	}
	if r.must, err = readLines(must); err != nil {
		return nil, err
	}
	for _, line := range r.must {
		if len(strings.Fields(line)) != 2 {
			return nil, fmt.Errorf("%s: %q: want a package folder and a test name", must, line)
		}
	}
	return r, nil
}

// readLines returns the lines of a file without comments and blank lines.
func readLines(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// check lists the requirements that the run did not meet, in a fixed order.
func (r *rules) check(t *tally) []string {
	var problems []string
	for _, id := range t.sorted(skipped) {
		reason := t.reason(id)
		if !slices.ContainsFunc(r.allowed, func(re *regexp.Regexp) bool { return re.MatchString(reason) }) {
			problems = append(problems, fmt.Sprintf("skipped for a reason that is not allowed: %s %s: %s", id.pkg, id.test, reason))
		}
	}
	for _, line := range r.must {
		fields := strings.Fields(line)
		if got := find(t, fields[0], fields[1]); got != "passed" {
			problems = append(problems, fmt.Sprintf("must pass, but is %s: %s", got, line))
		}
	}
	return problems
}

// find describes how a test ended; folder is its package's path in the module.
func find(t *tally, folder, test string) string {
	names := map[outcome]string{unknown: "unfinished", passed: "passed", failed: "failed", skipped: "skipped"}
	for id, r := range t.results {
		if id.test == test && (id.pkg == folder || strings.HasSuffix(id.pkg, "/"+folder)) {
			return names[r.outcome]
		}
	}
	return "missing"
}

// printSkips lists the skips by reason.
func printSkips(w io.Writer, t *tally) {
	byReason := make(map[string][]string)
	for _, id := range t.sorted(skipped) {
		reason := t.reason(id)
		byReason[reason] = append(byReason[reason], id.String())
	}
	reasons := make([]string, 0, len(byReason))
	for reason := range byReason {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	for _, reason := range reasons {
		tests := byReason[reason]
		_, _ = fmt.Fprintf(w, "skipped %d (%s): %s\n", len(tests), reason, strings.Join(tests, " "))
	}
}

// printTimes prints the times of lanes and slow tests.
func printTimes(w io.Writer, t *tally) {
	for _, id := range t.slowest(25) {
		_, _ = fmt.Fprintf(w, "%7.1f s  %s\n", t.results[id].seconds, id)
	}
	for _, l := range t.lanes {
		_, _ = fmt.Fprintf(w, "lane %s took %.0f s\n", l.name, l.seconds)
	}
}
