package architecture

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// CommandsFile lists what scripts/deps.sh installs, one command per line: its name, its Debian
// package, and who needs it, if not every user.
const CommandsFile = "scripts/commands.txt"

// Uses are the places ("file:line") where each command is called by its name.
type Uses map[string][]string

// FindCommands reads the Go code, the scripts and the Makefile. It does not find commands whose
// names are in variables. It leaves out scripts that run inside the virtual machine, which have
// busybox.
func FindCommands(root fs.FS) (Uses, error) {
	f := finder{uses: Uses{}, folders: map[string][]goFile{}}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if skipFolder(name) && name != ".ci" {
				return fs.SkipDir
			}
			return nil
		case slices.Contains([]string{"test/vm/init", "test/vm/inside.sh"}, name):
			return nil
		}
		return f.addFile(root, name)
	})
	if err != nil {
		return nil, err
	}
	for _, files := range f.folders {
		f.addFolder(files)
	}
	return f.uses, nil
}

type finder struct {
	uses      Uses
	folders   map[string][]goFile
	functions map[string][][]string // of the current script: the calls in each
}

func (f *finder) addFile(root fs.FS, name string) error {
	ext, isMake := path.Ext(name), path.Base(name) == "Makefile"
	if ext != ".go" && ext != ".sh" && ext != "" {
		return nil
	}
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	switch {
	case ext == ".go":
		file, err := parseGo(name, text)
		f.folders[path.Dir(name)] = append(f.folders[path.Dir(name)], file)
		return err
	case isMake:
		return f.addMakefile(name, string(text))
	case ext == ".sh" || strings.HasPrefix(string(text), "#!"):
		return f.addScript(name, string(text))
	}
	return nil
}

// Holes replace the parts of a word that are not known from the text. They are valid words of
// the shell, so that a script with holes can still be parsed.
const (
	hole          = "__hole_"
	unknown       = hole + "unknown__"
	argumentFirst = hole + "first__" // first argument of a shell function
	argumentsAll  = hole + "all__"
)

// prefix is a command that runs another one, which follows after its options and arguments.
type prefix struct {
	arguments int      // before the command
	values    []string // options whose value is the next word
}

var prefixes = map[string]prefix{
	"chroot": {arguments: 1}, "command": {}, "env": {values: []string{"-u"}}, "exec": {}, "flock": {arguments: 1},
	"nice": {values: []string{"-n"}}, "setpriv": {values: []string{"--inh-caps", "--bounding-set"}}, "setsid": {}, "sudo": {},
	"taskset": {arguments: 1}, "timeout": {arguments: 1, values: []string{"-k", "-s"}}, "unshare": {values: []string{"--propagation"}}, "xargs": {values: []string{"-n", "-I", "-P"}},
}

// builtins need no package: they are part of bash.
var builtins = strings.Fields(". : [ alias bg break cd command continue declare echo eval exec exit export false fg getopts hash " +
	"jobs local mapfile popd printf pushd pwd read readonly return set shift shopt source test times trap true type ulimit umask unset wait")

var systemFolder = regexp.MustCompile(`^(/usr)?/s?bin/`)

// add adds one call and, if it runs another command, that command too.
func (f *finder) add(where string, words []string) {
	if len(words) == 0 {
		return
	}
	name, rest := systemFolder.ReplaceAllString(words[0], ""), words[1:]
	if strings.Contains(name, hole) || strings.Contains(name, "/") {
		// This may be a program of this project: netkvlab exec LAB NODE -- COMMAND.
		if i := slices.Index(rest, "--"); i >= 0 {
			f.add(where, rest[i+1:])
		}
		return
	}
	if !slices.Contains(builtins, name) && f.functions[name] == nil && name != "" && !slices.Contains(f.uses[name], where) {
		f.uses[name] = append(f.uses[name], where)
	}
	switch name {
	case "sh", "bash":
		if i := slices.IndexFunc(rest, func(w string) bool { return strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") }); i >= 0 && i+1 < len(rest) {
			f.addText(where, rest[i+1])
		}
	case "trap", "eval":
		if len(rest) > 0 {
			f.addText(where, rest[0])
		}
	case "ip":
		if i := slices.Index(rest, "exec"); i >= 0 && i+2 < len(rest) {
			f.add(where, rest[i+2:])
		}
	default:
		if p, ok := prefixes[name]; ok {
			f.add(where, p.inner(rest))
		}
	}
}

// inner returns the command that a prefix runs.
func (p prefix) inner(words []string) []string {
	left := p.arguments
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case slices.Contains(p.values, w):
			i++
		case strings.HasPrefix(w, "-") || strings.Contains(w, "="):
		case left > 0:
			left--
		default:
			return words[i:]
		}
	}
	return nil
}

// Command is a line of CommandsFile.
type Command struct{ Package, Who string }

// ParseCommands reads CommandsFile.
func ParseCommands(text string) (map[string]Command, error) {
	list := map[string]Command{}
	var errs []error
	last := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case len(fields) > 3 || len(fields) < 2:
			errs = append(errs, fmt.Errorf("%s: %q: want a command, its Debian package and, perhaps, who needs it", CommandsFile, line))
			continue
		case fields[0] <= last:
			errs = append(errs, fmt.Errorf("%s: %s stands after %s: sort the lines", CommandsFile, fields[0], last))
		}
		c := Command{Package: fields[1], Who: strings.Join(fields[2:], "")}
		if !slices.Contains([]string{"", "docker", "extra", "go"}, c.Who) {
			errs = append(errs, fmt.Errorf("%s: %q: %s is none of docker, extra and go", CommandsFile, line, c.Who))
		}
		last, list[fields[0]] = fields[0], c
	}
	return list, errors.Join(errs...)
}

// CheckCommands names commands that are called but not in the list, and commands in the list
// that are never called.
func CheckCommands(list map[string]Command, uses Uses) []string {
	var faults []string
	for name, where := range uses {
		if list[name].Package == "" {
			faults = append(faults, fmt.Sprintf("%s is called (%s) but not listed in %s, so it may be missing on a fresh machine", name, strings.Join(where, ", "), CommandsFile))
		}
	}
	for name, c := range list {
		if len(uses[name]) == 0 && c.Who != "go" {
			faults = append(faults, fmt.Sprintf("%s is listed in %s but called nowhere", name, CommandsFile))
		}
	}
	slices.Sort(faults)
	return faults
}
