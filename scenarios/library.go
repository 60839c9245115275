package scenarios

import (
	"embed"
	"path"
	"strings"
)

//go:embed *.yaml
var library embed.FS

// Names lists the embedded scenarios, sorted.
func Names() []string {
	entries, err := library.ReadDir(".")
	if err != nil {
		return nil // an embedded folder can always be read
	}
	var names []string
	for _, e := range entries { // sorted by file name
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	return names
}

// Embedded returns the file of an embedded scenario, comments included, and
// whether there is one of that name.
func Embedded(name string) ([]byte, bool) {
	data, err := library.ReadFile(name + ".yaml")
	return data, err == nil
}
