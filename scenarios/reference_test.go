package scenarios

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/scenario-reference.md anew")

const referenceFile = "../docs/scenario-reference.md"

// The reference page is generated from the same metadata that the decoder
// reads, so it cannot differ from the code.
func TestReferencePageIsCurrent(t *testing.T) {
	page := referencePage(t)
	if *update {
		require.NoError(t, os.WriteFile(referenceFile, []byte(page), 0o644))
	}
	have, err := os.ReadFile(referenceFile)
	require.NoError(t, err)
	want, got := strings.Split(page, "\n"), strings.Split(string(have), "\n")
	require.Len(t, got, len(want), "run go generate ./scenarios")
	for i := range want {
		require.Equal(t, want[i], got[i], "line %d: run go generate ./scenarios", i+1)
	}
}

const referenceHead = `# Scenario reference

<!-- Written by "go generate ./scenarios" from the Go source of the package scenarios. Do not edit. -->

A scenario is one YAML file. Every key may be left out unless the table says *required*; ` + "`netkvlab validate FILE`" + `
checks a file, ` + "`netkvlab schema`" + ` prints its JSON Schema for editors. A key that is not listed here is an error, and so
is a number without its unit. All faults of a file are reported at once:

` + "```" + `
%s` + "```" + `

Sizes, rates and times are those of the real cluster. Only ` + "`scale`" + ` says how they shrink on this host; keys that end in
` + "`Emulated`" + ` are exempt.

To start from a ready file: %s.
` + "`--set topology.pods=2`" + `, or from Go ` + "`scenarios.Load(file, \"topology.pods=2\")`" + `, overrides a key. A setting of one of two keys that say the same
(` + "`oversubscription`" + ` and ` + "`linkRates`" + `, ` + "`kvDtype`" + ` and ` + "`bytesPerElement`" + `) wins over the other one in the file.

YAML anchors and aliases are read; merge keys (` + "`<<`" + `) and several documents in one file are not. Whole numbers are plain decimals
(no leading zeros, no 0x, no exponent). Texts that YAML takes for something else (010, true, 2024-01-01) need quotes.
`

func referencePage(t *testing.T) string {
	t.Helper()
	_, err := Parse("scenario.yaml", []byte("topology:\n  podz: 4\n  nicRate: 25gbps\nslo:\n  ttft: 4\n"))
	require.Error(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, referenceHead, err.Error()+"\n", "`"+strings.Join(Names(), "`, `")+"`")
	s := everyDefault()
	types := sourceComments(scenarioSource)
	writeSection(&b, types, root(), reflect.ValueOf(s), "")
	writeUnits(&b)
	writeTables(&b)
	return b.String()
}

func writeSection(b *strings.Builder, types map[string]string, f *field, v reflect.Value, path string) {
	title, typ := path, f.typ
	if path == "" {
		title = "The file"
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	if path != "" {
		fmt.Fprintf(b, "%s\n\n", types[typ.Name()])
	}
	b.WriteString("| key | type | allowed | default | meaning |\n|---|---|---|---|---|\n")
	for _, c := range f.fields {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", c.key, typeText(c), allowedText(c), defaultText(c, f, v), cell(c.doc))
	}
	for _, c := range f.fields {
		switch {
		case c.kind == kindSection:
			writeSection(b, types, c, c.at(v), joinPath(path, c.key))
		case c.kind == kindList && c.elem.kind == kindSection:
			writeSection(b, types, c.elem, reflect.Value{}, joinPath(path, c.key)+"[]")
		}
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func typeText(f *field) string {
	if f.kind == kindList {
		return "list of " + strings.NewReplacer("text", "texts", "number", "numbers", "mapping", "mappings").Replace(typeText(f.elem))
	}
	return f.noun()
}

func allowedText(f *field) string {
	of := f
	if f.kind == kindList {
		of = f.elem
	}
	var text []string
	switch {
	case len(of.enum) > 0:
		text = append(text, "`"+strings.Join(of.enum, "`, `")+"`")
	case of.pattern != nil:
		text = append(text, cell(of.patternDoc))
	case of.rangeText != "":
		text = append(text, of.allowed())
	}
	if f.most > 0 {
		text = append(text, fmt.Sprintf("%d..%d items", f.least, f.most))
	}
	return strings.Join(text, "; ")
}

func defaultText(c, parent *field, section reflect.Value) string {
	switch {
	case c.required:
		return "*required*"
	case c.defaultDoc != "":
		return cell(c.defaultDoc)
	case c.kind == kindSection:
		return ""
	case !section.IsValid():
		if c.optional {
			return ""
		}
		return "`" + c.format(reflect.Zero(c.typ)) + "`"
	}
	v := c.at(section)
	switch {
	case c.key == "name" && parent == root():
		return "the file's base name"
	case c.optional && v.IsZero():
		return ""
	case c.kind != kindList:
		return "`" + c.format(v) + "`"
	}
	var items []string
	for i := range v.Len() {
		if p, ok := v.Index(i).Interface().(Policy); ok {
			items = append(items, p.Name)
		} else {
			items = append(items, c.elem.format(v.Index(i)))
		}
	}
	return "`[" + strings.Join(items, ", ") + "]`"
}

func writeUnits(b *strings.Builder) {
	b.WriteString(`
## Units

A quantity is a plain decimal number without sign or exponent, at most one space, and a unit. Case counts: ` + "`b`" + ` is a bit
and ` + "`B`" + ` a byte. Values are exact (3.125GB/s is 25Gbps to the bit) and must come out as whole bits per second, bytes or nanoseconds.

| rate units | worth in bit/s |
|---|---|
`)
	for _, row := range rateSpellings {
		fmt.Fprintf(b, "| `%s` | %d |\n", strings.Join(row.units, "`, `"), row.bitsPerSecond)
	}
	b.WriteString(`
Refused, with a hint: ` + "`25gbps`" + ` (tc reads it as bytes), ` + "`25Gb/s`" + `, ` + "`25Gibps`" + `, ` + "`25G`" + `, ` + "`25GB`" + ` (a size), bare numbers
(` + "`25e9`" + `, ` + "`25000000000`" + `), negative numbers and 0.

| size units | worth in bytes |
|---|---|
`)
	for _, u := range sizeUnits {
		name := u.name
		if name == "kB" {
			name = "kB`, `KB"
		}
		fmt.Fprintf(b, "| `%s` | %d |\n", name, u.times)
	}
	b.WriteString(`
Times are written as in Go: ` + "`1.5s`, `100ms`, `8us`, `1h30m`" + ` (units ns, us or µs, ms, s, m, h). Arrival rates are requests per
second: ` + "`4/s`, `0.5/s`" + `.
`)
}

func writeTables(b *strings.Builder) {
	b.WriteString("\n## Policies\n\n| name | rule |\n|---|---|\n")
	for _, p := range policies {
		fmt.Fprintf(b, "| `%s` | %s |\n", p.name, p.rule)
	}
	b.WriteString("\nA policy is a bare name, or a mapping: `{name: cla, label: cla-cache, cacheWeight: 4, loadWeight: 1}`.\n" +
		"`cla*` needs its weights, as `netkvlab tune` finds them: `{name: cla*, weights: weights.yaml}` reads the file that it wrote.\n")
	b.WriteString("\n## Model presets\n\n| preset | layers | KV heads | head dim | latent dim | bytes a token, fp16 | fp8 | source |\n|---|---|---|---|---|---|---|---|\n")
	for _, p := range modelPresets {
		m := p.values
		m.Replication, m.BytesPerElement = 1, 2
		fp16 := m.KVBytesPerToken()
		m.BytesPerElement = 1
		fmt.Fprintf(b, "| `%s` | %d | %d | %d | %d | %d | %d | %s |\n", p.name, m.Layers, m.KVHeads, m.HeadDim, m.LatentDim, int64(fp16), int64(m.KVBytesPerToken()), p.source)
	}
	b.WriteString("\nAll start with kvDtype fp16, replication 1 and tensorParallel 4.\n")
	b.WriteString("\n## Compute presets\n\n| preset | prefill | decode iteration | source |\n|---|---|---|---|\n")
	for _, p := range enginePresets {
		e := p.values
		fmt.Fprintf(b, "| `%s` | %s: %s + %s ns x L + %s ns x L^2 | %s + %s x b + %s ns x S | %s |\n", p.name,
			e.Prefill.Mode, formatDuration(e.Prefill.Base), formatFloat(e.Prefill.PerTokenNs), formatFloat(e.Prefill.PerTokenSquaredNs),
			formatDuration(e.Decode.Base), formatDuration(e.Decode.PerSequence), formatFloat(e.Decode.PerContextTokenNs), p.source)
	}
	b.WriteString("\n## Workload profiles\n\n| profile | prompt mean, sigma, min..max | output mean, sigma, min..max | prefix share, groups, fraction | source |\n|---|---|---|---|---|\n")
	for _, p := range workloadProfiles {
		s := p.values
		fmt.Fprintf(b, "| `%s` | %s | %s | %s, %d, %s | %s |\n", p.name, lengthText(s.Prompt), lengthText(s.Output),
			formatFloat(s.Prefix.Share), s.Prefix.Groups, formatFloat(s.Prefix.Fraction), p.source)
	}
}

func lengthText(l LengthTokens) string {
	return fmt.Sprintf("%s, %s, %d..%d", formatFloat(l.Mean), formatFloat(l.Sigma), l.Min, l.Max)
}
