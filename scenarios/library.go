package scenarios

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed *.yaml paper/*.yaml sweeps/*.yaml
var library embed.FS

// scenarioFolders are the folders of embedded scenarios; a name is unique in all of them.
var scenarioFolders = []string{".", "paper"}

const sweepFolder = "sweeps"

// Names lists the embedded scenarios, sorted.
func Names() []string { return namesIn(scenarioFolders...) }

// Embedded returns the file of an embedded scenario, comments included, and
// whether there is one of that name.
func Embedded(name string) ([]byte, bool) { return fileIn(name, scenarioFolders...) }

// SweepNames lists the embedded sweeps, sorted. The package internal/sweep reads
// them; they are here beside the scenarios that they vary.
func SweepNames() []string { return namesIn(sweepFolder) }

// EmbeddedSweep returns the file of an embedded sweep, comments included, and
// whether there is one of that name.
func EmbeddedSweep(name string) ([]byte, bool) { return fileIn(name, sweepFolder) }

// namesIn lists the base names of the YAML files in folders, sorted.
func namesIn(folders ...string) []string {
	var names []string
	for _, folder := range folders {
		files, _ := fs.Glob(library, path.Join(folder, "*.yaml")) // fails on a bad pattern only
		for _, file := range files {
			names = append(names, strings.TrimSuffix(path.Base(file), ".yaml"))
		}
	}
	slices.Sort(names)
	return names
}

// fileIn returns the YAML file of a name in the first folder that has it.
func fileIn(name string, folders ...string) ([]byte, bool) {
	if strings.ContainsAny(name, `/\`) {
		return nil, false
	}
	for _, folder := range folders {
		if data, err := library.ReadFile(path.Join(folder, name+".yaml")); err == nil {
			return data, true
		}
	}
	return nil, false
}
