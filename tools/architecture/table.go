// Package architecture checks what no compiler checks: which room may import which
// (the table of docs/architecture.md), how large types, functions and the whole may be,
// and that the commands which scripts and tests call are among those that
// scripts/deps.sh installs (scripts/commands.txt).
//
// It is only used by its own tests. An import that the table forbids is a sign that a
// thing lives in the wrong room; move the thing before you widen a row.
package architecture

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// TableFile holds the table of allowed imports, the only one that there is.
const TableFile = "docs/architecture.md"

// tableHead begins the table; what stands between its columns is for readers.
const tableHead = "| folder | what lives there | may import |"

// Room is a folder with everything below it that has no room of its own, and the
// rooms it may import. What those may import it may import too: whoever takes a
// Plan takes the units in it. Any folder of a room may import any other of the same.
type Room struct {
	Folder    string
	MayImport []string
	Any       bool // may import every room but those that are Any themselves
}

// Table is one row per room.
type Table []Room

var quoted = regexp.MustCompile("`([^`]+)`")

// ParseTable reads the table from the text of TableFile. A row's last cell names rooms
// in backquotes, or says "nothing of ours" or "everything".
func ParseTable(text string) (Table, error) {
	_, rows, found := strings.Cut(text, tableHead+"\n|---|---|---|\n")
	if !found {
		return nil, fmt.Errorf("%s: no table that begins with %q", TableFile, tableHead)
	}
	var t Table
	for line := range strings.Lines(rows) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		r, err := parseRow(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: row %q: %w", TableFile, strings.TrimSpace(line), err)
		}
		t = append(t, r)
	}
	return t, t.check()
}

func parseRow(line string) (Room, error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 3 {
		return Room{}, errors.New("want three cells")
	}
	folder := quoted.FindStringSubmatch(cells[0])
	if folder == nil {
		return Room{}, errors.New("want a folder in backquotes")
	}
	r := Room{Folder: strings.TrimSuffix(folder[1], "/...")}
	switch may := strings.TrimSpace(cells[2]); may {
	case "nothing of ours":
	case "everything":
		r.Any = true
	default:
		for _, m := range quoted.FindAllStringSubmatch(may, -1) {
			r.MayImport = append(r.MayImport, m[1])
		}
		if len(r.MayImport) == 0 {
			return Room{}, errors.New(`want rooms in backquotes, "nothing of ours" or "everything"`)
		}
	}
	return r, nil
}

// check refuses two rows for one folder and entries without a row.
func (t Table) check() error {
	var errs []error
	for i, r := range t {
		if slices.ContainsFunc(t[:i], func(other Room) bool { return other.Folder == r.Folder }) {
			errs = append(errs, fmt.Errorf("%s: %s has two rows", TableFile, r.Folder))
		}
		for _, name := range r.MayImport {
			if to, ok := t.roomOf(name); !ok || to.Folder != name {
				errs = append(errs, fmt.Errorf("%s: %s may import %s, which has no row", TableFile, r.Folder, name))
			}
		}
	}
	return errors.Join(errs...)
}

// roomOf finds the room with the longest folder that holds this one. Each folder of
// internal needs a row of its own, so none is found for internal itself.
func (t Table) roomOf(folder string) (Room, bool) {
	var best Room
	for _, r := range t {
		if (folder == r.Folder || strings.HasPrefix(folder, r.Folder+"/")) && len(r.Folder) > len(best.Folder) {
			best = r
		}
	}
	return best, best.Folder != ""
}

// allowed follows the rows: directly or through what an allowed room may import.
func (t Table) allowed(from, to Room) bool {
	if from.Any {
		return !to.Any
	}
	seen := map[string]bool{}
	queue := slices.Clone(from.MayImport)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if name == to.Folder {
			return true
		}
		if next, ok := t.roomOf(name); ok && !seen[name] {
			seen[name] = true
			queue = append(queue, next.MayImport...)
		}
	}
	return false
}
