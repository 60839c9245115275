package scenarios

import (
	"embed"
	"path"
	"slices"
	"strings"
)

//go:embed *.yaml paper/*.yaml
var library embed.FS

// libraryFolders are the folders of embedded scenarios; a name is unique in all of them.
var libraryFolders = []string{".", "paper"}

//go:embed sweeps/*.yaml
var sweeps embed.FS

const sweepFolder = "sweeps"

// Names lists the embedded scenarios, sorted.
func Names() []string {
	var names []string
	for _, folder := range libraryFolders {
		names = append(names, yamlNames(library, folder)...)
	}
	slices.Sort(names)
	return names
}

// Embedded returns the file of an embedded scenario, comments included, and
// whether there is one of that name.
func Embedded(name string) ([]byte, bool) {
	if strings.ContainsAny(name, `/\`) {
		return nil, false
	}
	for _, folder := range libraryFolders {
		if data, err := library.ReadFile(path.Join(folder, name+".yaml")); err == nil {
			return data, true
		}
	}
	return nil, false
}

// SweepNames lists the embedded sweeps, sorted. The package internal/sweep reads
// them; they are here beside the scenarios that they vary.
func SweepNames() []string { return yamlNames(sweeps, sweepFolder) }

// EmbeddedSweep returns the file of an embedded sweep, comments included, and
// whether there is one of that name.
func EmbeddedSweep(name string) ([]byte, bool) {
	if strings.ContainsAny(name, `/\`) {
		return nil, false
	}
	data, err := sweeps.ReadFile(path.Join(sweepFolder, name+".yaml"))
	return data, err == nil
}

// yamlNames lists the base names of a folder's YAML files, sorted.
func yamlNames(fs embed.FS, folder string) []string {
	entries, err := fs.ReadDir(folder)
	if err != nil {
		return nil // an embedded folder can always be read
	}
	var names []string
	for _, e := range entries { // sorted by file name
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	return names
}
