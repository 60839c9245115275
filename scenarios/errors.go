package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v3"
)

// Error is one fault of a scenario. Load, Parse and Validate report all faults
// at once, joined in order of their lines; errors.As finds the first.
type Error struct {
	File string // as given to Parse; "" for a Scenario made in Go
	Line int    // 1-based; 0 where there is no file
	Path string // of the key, such as topology.pods or policies[2].name; "" for the file as a whole
	Msg  string // what is wrong, what is allowed, what was found
}

// Error reads "scenario.yaml:14: topology.pods: must be 1..64, got 0".
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.File != "" && e.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", e.File, e.Line)
	case e.File != "":
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	if e.Path != "" {
		fmt.Fprintf(&b, "%s: ", e.Path)
	}
	return b.String() + e.Msg
}

const (
	// maxErrors limits the list for a file that is not a scenario at all.
	maxErrors = 100
	// keepErrors bounds the errors that are kept of such a file; the first of them are shown.
	keepErrors = 1000
)

// faults collects the errors of one file and knows the lines of its keys.
type faults struct {
	file string
	errs []*Error
	// nodes are the values the file gives, by path; empty for a Scenario made in Go.
	nodes map[string]*yaml.Node
	// bad are the paths with a fault, so that no check reports a consequence of another fault.
	bad map[string]bool
	// more counts the faults beyond those kept.
	more int
}

// given reports whether the file sets the key itself.
func (f *faults) given(path string) bool { return f.nodes[path] != nil }

// overruled reports whether a setting from outside the file gives other, while
// path is in the file: then the file's value of path no longer applies.
func (f *faults) overruled(path, other string) bool {
	return f.given(path) && f.given(other) && f.line(path) >= 0 && f.line(other) < 0
}

// line is the line of path, or of the nearest section that contains it.
func (f *faults) line(path string) int {
	for f.nodes[path] == nil && path != "" {
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	if n := f.nodes[path]; n != nil {
		return n.Line
	}
	return 0
}

func (f *faults) addf(path, format string, args ...any) {
	f.addAt(f.line(path), path, format, args...)
}

// addAt is addf for a place that is not a value. Lines below 0 are settings from
// outside the file (see applySetting).
func (f *faults) addAt(line int, path, format string, args ...any) {
	if f.bad == nil {
		f.bad = map[string]bool{}
	}
	f.bad[path] = true
	if len(f.errs) == keepErrors {
		f.more++
		return
	}
	e := &Error{File: f.file, Line: line, Path: path, Msg: fmt.Sprintf(format, args...)}
	if line < 0 {
		e.File, e.Line = "setting", 0
	}
	f.errs = append(f.errs, e)
}

// clean reports whether no fault was found in any of the sections so far.
func (f *faults) clean(sections ...string) bool {
	for bad := range f.bad {
		for _, s := range sections {
			if bad == s || bad == "" || strings.HasPrefix(bad, s+".") || strings.HasPrefix(bad, s+"[") {
				return false
			}
		}
	}
	return true
}

// join returns the faults in order of their lines, nil when there are none.
func (f *faults) join() error {
	slices.SortStableFunc(f.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	var list []error
	for i, e := range f.errs {
		if i == maxErrors {
			list = append(list, &Error{File: f.file, Msg: fmt.Sprintf("and %d more", len(f.errs)-maxErrors+f.more)})
			break
		}
		list = append(list, e)
	}
	return errors.Join(list...)
}

// suggest returns the valid word that the user probably meant by got, or "".
func suggest(got string, valid []string) string {
	best, distance := "", 0
	for _, v := range valid {
		d := levenshtein.ComputeDistance(strings.ToLower(got), strings.ToLower(v))
		if best == "" || d < distance {
			best, distance = v, d
		}
	}
	if best == "" || distance > max(1, len(best)/3) {
		return ""
	}
	return best
}

// notOneOf is the message for a word that is not valid.
func notOneOf(what, got string, valid []string) string {
	hint := ""
	if s := suggest(clip(got), valid); s != "" {
		hint = fmt.Sprintf("; did you mean %q?", s)
	}
	return fmt.Sprintf("%s %q%s (valid: %s)", what, clip(got), hint, strings.Join(valid, ", "))
}

// clip prepares a file's text for a message: short, and without characters
// that would control a terminal.
func clip(text string) string {
	const most = 60
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}
