// Package architecture checks what the compiler does not check: which room may import which (the
// table of docs/architecture.md), the sizes of types, functions and the whole code, and that
// scripts/deps.sh installs all commands that scripts and tests call (scripts/commands.txt).
//
// It is only used by its own tests. An import that the table forbids is a sign that code is in
// the wrong room; move the code before you extend a row.
package architecture

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// TableFile contains the only table of allowed imports.
const TableFile = "docs/architecture.md"

// tableHead is the first line of the table. Its middle column is only for readers.
const tableHead = "| folder | what lives there | may import |"

// Room is a folder with everything below it that is not a separate room, and the rooms that it
// may import. It may also import what those may import: code that uses a Plan also uses the
// units in it. Folders of one room may import each other.
type Room struct {
	Folder    string
	MayImport []string
	Any       bool // may import every room except those with Any
}

// Table is one row per room.
type Table []Room

var quoted = regexp.MustCompile("`([^`]+)`")

// ParseTable reads the table from the text of TableFile. A row's last cell has rooms in
// backquotes, or the text "nothing of ours" or "everything".
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

// roomOf finds the room with the longest folder that contains the given one. Each folder of
// internal needs its own row, so no room is found for internal itself.
func (t Table) roomOf(folder string) (Room, bool) {
	var best Room
	for _, r := range t {
		if (folder == r.Folder || strings.HasPrefix(folder, r.Folder+"/")) && len(r.Folder) > len(best.Folder) {
			best = r
		}
	}
	return best, best.Folder != ""
}

// allowed reports whether the rows allow an import, directly or through another allowed room.
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
