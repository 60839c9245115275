// Package arrows holds the table of which package may import which, and the check
// that keeps the code to it. The table is the architecture of docs/architecture.md:
// what decides must not know which world it is in, what plans must not touch the
// kernel, and what others import (the scheduler, the scenarios) drags nothing along.
//
// It is only used by its own test. An import that the table forbids is a sign that a
// thing lives in the wrong room; move the thing before you widen a row.
package arrows

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Package is what `go list -json` tells of a package. Imports are those of its own
// code; tests may look where they like.
type Package struct {
	ImportPath string
	Imports    []string
}

// Room is a folder with everything below it that has no room of its own, and the
// rooms it may import. What those may import it may import too: whoever takes a
// Plan takes the units in it. Any folder of a room may import any other of the same.
type Room struct {
	Folder     string
	MayImport  []string
	Everything bool // may import all but the command line
}

// House is the table, one row a room.
func House() []Room {
	return []Room{
		{Folder: "cmd", Everything: true},
		{Folder: "test", Everything: true},
		{Folder: "internal", Everything: true},
		{Folder: "scenarios"},
		{Folder: "fabric", MayImport: []string{"scenarios"}},
		{Folder: "fabric/kernel", MayImport: []string{"fabric"}},
		{Folder: "nodes", MayImport: []string{"fabric"}},
		{Folder: "kvagent", MayImport: []string{"kvagent/engine"}},
		{Folder: "kvagent/engine"},
		{Folder: "scheduler"},
		{Folder: "flowsim", MayImport: []string{"fabric", "scheduler", "kvagent/engine"}},
	}
}

// junk are names that say nothing about what belongs inside.
var junk = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared"}

// Check lists what breaks the table, sorted. module is the import path of the
// module; packages outside it are not looked at. Having looked at none is a fault too.
func Check(module string, rooms []Room, packages []Package) []string {
	var faults []string
	scanned := 0
	edges := make(map[string][]string)
	for _, p := range packages {
		folder, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if !ours {
			continue
		}
		scanned++
		if slices.Contains(junk, path.Base(folder)) {
			faults = append(faults, fmt.Sprintf("%s: a package called %s has no idea of its own; name what it does", folder, path.Base(folder)))
		}
		from, ok := roomOf(rooms, folder)
		if !ok {
			faults = append(faults, folder+": has no room; give it a row in internal/arrows and docs/architecture.md")
			continue
		}
		for _, imported := range p.Imports {
			target, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			to, ok := roomOf(rooms, target)
			if !ok || to.Folder == from.Folder {
				continue
			}
			edges[from.Folder] = append(edges[from.Folder], to.Folder)
			if !allowed(rooms, from, to) {
				faults = append(faults, fmt.Sprintf("%s imports %s: %s may not import %s", folder, target, from.Folder, to.Folder))
			}
		}
	}
	if scanned == 0 {
		faults = append(faults, "no package of "+module+" was looked at")
	}
	faults = append(faults, cycles(rooms, edges)...)
	slices.Sort(faults)
	return slices.Compact(faults)
}

// roomOf finds the room with the longest folder that holds this one.
func roomOf(rooms []Room, folder string) (Room, bool) {
	var best Room
	for _, r := range rooms {
		if (folder == r.Folder || strings.HasPrefix(folder, r.Folder+"/")) && len(r.Folder) > len(best.Folder) {
			best = r
		}
	}
	return best, best.Folder != ""
}

func allowed(rooms []Room, from, to Room) bool {
	if from.Everything {
		return to.Folder != "cmd" && to.Folder != "test"
	}
	for _, name := range from.MayImport {
		if name == to.Folder {
			return true
		}
		if next, ok := roomOf(rooms, name); ok && next.Folder == name && allowed(rooms, next, to) {
			return true
		}
	}
	return false
}

// cycles names the rooms that reach themselves. Go refuses cycles of packages; two
// rooms can still lean on each other through different packages.
func cycles(rooms []Room, edges map[string][]string) []string {
	var faults []string
	for _, r := range rooms {
		seen := make(map[string]bool)
		queue := slices.Clone(edges[r.Folder])
		for len(queue) > 0 {
			next := queue[0]
			queue = queue[1:]
			if seen[next] {
				continue
			}
			seen[next] = true
			queue = append(queue, edges[next]...)
		}
		if seen[r.Folder] {
			faults = append(faults, r.Folder+": imports itself by way of another room")
		}
	}
	return faults
}
