package architecture

import (
	"fmt"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// addScript adds the commands of a script.
func (f *finder) addScript(name, text string) error {
	if line, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(line, "#!") {
		f.add(name+":1", strings.Fields(strings.TrimPrefix(line, "#!")))
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), name)
	if err != nil {
		return err
	}
	f.functions = shellFunctions(file)
	defer func() { f.functions = nil }()
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			f.addCall(fmt.Sprintf("%s:%d", name, call.Pos().Line()), wordsOf(call.Args), 0)
		}
		return true
	})
	return nil
}

// addText adds the commands of a script within a command line. With holes it may be invalid.
func (f *finder) addText(where, text string) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), where)
	if err != nil {
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			f.addCall(where, wordsOf(call.Args), 0)
		}
		return true
	})
}

// shellFunctions returns the calls in each function of a script.
func shellFunctions(file *syntax.File) map[string][][]string {
	functions := map[string][][]string{}
	syntax.Walk(file, func(n syntax.Node) bool {
		function, ok := n.(*syntax.FuncDecl)
		if !ok {
			return true
		}
		functions[function.Name.Value] = [][]string{}
		syntax.Walk(function.Body, func(n syntax.Node) bool {
			if call, ok := n.(*syntax.CallExpr); ok {
				functions[function.Name.Value] = append(functions[function.Name.Value], wordsOf(call.Args))
			}
			return true
		})
		return true
	})
	return functions
}

// addCall adds a command or, for a function of the script, the commands in the function.
func (f *finder) addCall(where string, words []string, depth int) {
	if len(words) == 0 {
		return
	}
	calls, ok := f.functions[words[0]]
	if !ok {
		f.add(where, words)
		return
	}
	for _, call := range calls {
		if filled, ok := fill(call, words[1:]); ok && depth < 3 {
			f.addCall(where, filled, depth+1)
		}
	}
}

// fill puts a function's arguments into a call in its body; has is false if it uses none.
func fill(call, arguments []string) (filled []string, has bool) {
	for _, w := range call {
		switch {
		case w == argumentsAll:
			filled, has = append(filled, arguments...), true
		case w == argumentFirst && len(arguments) > 0:
			filled, has = append(filled, arguments[0]), true
		default:
			filled = append(filled, w)
		}
	}
	return filled, has
}

func wordsOf(args []*syntax.Word) []string {
	words := make([]string, len(args))
	for i, w := range args {
		words[i] = partsOf(w.Parts)
	}
	return words
}

// partsOf returns a word's text, with holes for parts that are only known at run time.
func partsOf(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(strings.TrimPrefix(p.Value, `\`))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(partsOf(p.Parts))
		case *syntax.ParamExp:
			b.WriteString(map[string]string{"@": argumentsAll, "1": argumentFirst}[p.Param.Value])
			if p.Param.Value != "@" && p.Param.Value != "1" {
				b.WriteString(unknown)
			}
		default:
			b.WriteString(unknown)
		}
	}
	return b.String()
}

var (
	makeShell    = regexp.MustCompile(`\$\(shell ([^()]*)\)`)
	makeVariable = regexp.MustCompile(`\$\([^()]*\)|\$[@<^*]`)
)

// addMakefile adds the commands of recipes and of $(shell ...).
func (f *finder) addMakefile(name, text string) error {
	for i, line := range strings.Split(strings.ReplaceAll(text, "\\\n", "\x00"), "\n") {
		where := fmt.Sprintf("%s, logical line %d", name, i+1)
		for _, m := range makeShell.FindAllStringSubmatch(line, -1) {
			f.addText(where, m[1])
		}
		recipe, ok := strings.CutPrefix(line, "\t")
		if !ok {
			continue
		}
		recipe = strings.ReplaceAll(strings.TrimLeft(recipe, "@-+"), "$$", "\x01")
		for makeVariable.MatchString(recipe) {
			recipe = makeVariable.ReplaceAllString(recipe, unknown)
		}
		recipe = strings.NewReplacer("\x01", "$", "\x00", "\\\n").Replace(recipe)
		if err := f.addScript(where, recipe); err != nil {
			return fmt.Errorf("%w in %q", err, recipe)
		}
	}
	return nil
}
