package architecture

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Package is a package in the output of `go list -json`. Imports are those of its own code;
// tests may import anything.
type Package struct {
	ImportPath string
	Imports    []string
}

// junk are folder names that do not describe their contents.
var junk = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared"}

// CheckImports lists the faults against the table, sorted. module is the import path of the
// module; packages outside of it are ignored. These are faults too: no package at all, a row
// that allows more than the code needs, and a row for a folder that does not exist.
func CheckImports(module string, t Table, packages []Package) []string {
	g := newGraph(module, t, packages)
	faults := g.faults
	if g.scanned == 0 {
		return append(faults, "no package of "+module+" was looked at")
	}
	faults = append(faults, g.cycles()...)
	faults = append(faults, g.idleRows()...)
	slices.Sort(faults)
	return slices.Compact(faults)
}

// graph holds which rooms import which.
type graph struct {
	table   Table
	scanned int
	rooms   map[string]bool            // with a package
	edges   map[string]map[string]bool // room to the rooms that it imports
	faults  []string
}

func newGraph(module string, t Table, packages []Package) *graph {
	g := &graph{table: t, rooms: map[string]bool{}, edges: map[string]map[string]bool{}}
	for _, p := range packages {
		folder, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if !ours {
			continue
		}
		g.scanned++
		if slices.Contains(junk, path.Base(folder)) {
			g.fault("%s: a package called %s has no idea of its own; name what it does", folder, path.Base(folder))
		}
		from, ok := t.roomOf(folder)
		if !ok {
			g.fault("%s: has no room; give it a row in %s", folder, TableFile)
			continue
		}
		g.rooms[from.Folder] = true
		for _, imported := range p.Imports {
			if target, ours := strings.CutPrefix(imported, module+"/"); ours {
				g.add(from, folder, target)
			}
		}
	}
	return g
}

func (g *graph) fault(format string, args ...any) {
	g.faults = append(g.faults, fmt.Sprintf(format, args...))
}

// add adds one import of a package.
func (g *graph) add(from Room, folder, target string) {
	to, ok := g.table.roomOf(target)
	if !ok || to.Folder == from.Folder {
		return
	}
	if g.edges[from.Folder] == nil {
		g.edges[from.Folder] = map[string]bool{}
	}
	g.edges[from.Folder][to.Folder] = true
	if !g.table.allowed(from, to) {
		g.fault("%s imports %s: %s may not import %s", folder, target, from.Folder, to.Folder)
	}
}

// cycles names the rooms that import themselves through others. Go refuses cycles of packages,
// but two rooms can still import each other through different packages.
func (g *graph) cycles() []string {
	var faults []string
	for room := range g.rooms {
		if g.reaches(room, room) {
			faults = append(faults, room+": imports itself by way of another room")
		}
	}
	return faults
}

// reaches reports whether a room imports another, directly or through others.
func (g *graph) reaches(from, to string) bool {
	seen := map[string]bool{}
	var visit func(string) bool
	visit = func(room string) bool {
		for next := range g.edges[room] {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if visit(next) {
					return true
				}
			}
		}
		return false
	}
	return visit(from)
}

// idleRows lists rows without a package, and unneeded entries.
func (g *graph) idleRows() []string {
	var faults []string
	for _, r := range g.table {
		if !g.rooms[r.Folder] {
			faults = append(faults, fmt.Sprintf("%s: has a row in %s but no package", r.Folder, TableFile))
			continue
		}
		for _, name := range r.MayImport {
			others := Room{MayImport: slices.DeleteFunc(slices.Clone(r.MayImport), func(other string) bool { return other == name })}
			to, _ := g.table.roomOf(name)
			switch {
			case !g.edges[r.Folder][name]:
				faults = append(faults, fmt.Sprintf("%s: may import %s but does not; take it out of its row in %s", r.Folder, name, TableFile))
			case g.table.allowed(others, to):
				faults = append(faults, fmt.Sprintf("%s: may import %s through another entry already; take it out of its row in %s", r.Folder, name, TableFile))
			}
		}
	}
	return faults
}
