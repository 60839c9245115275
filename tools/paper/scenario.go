package paper

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// WriteSettings puts fitted settings into the text of a scenario file and keeps its comments.
// Each setting replaces the value of its key on the key's own line or, for prompt and prefix,
// within the braces of their section. A key that is not found is an error, so that no fitted
// value gets lost.
func WriteSettings(text []byte, settings []string) ([]byte, error) {
	out := bytes.Clone(text)
	for _, setting := range settings {
		path, value, ok := strings.Cut(setting, "=")
		if !ok {
			return nil, fmt.Errorf("setting %q has no value", setting)
		}
		if path == "policies" {
			var err error
			if out, err = writeWeights(out, value); err != nil {
				return nil, err
			}
			continue
		}
		keys := strings.Split(path, ".")
		key := regexp.QuoteMeta(keys[len(keys)-1])
		section := ""
		if len(keys) > 1 {
			section = regexp.QuoteMeta(keys[len(keys)-2])
		}
		block := regexp.MustCompile(`(?m)^( *` + section + `:\n(?: +.*\n|\n)*? +` + key + `: )([^\s,}]+)`)
		inline := regexp.MustCompile(`(?m)^( *` + section + `: \{[^}\n]*\b` + key + `: )([^\s,}]+)`)
		at := inline
		if !at.Match(out) {
			at = block
		}
		if n := len(at.FindAll(out, -1)); n != 1 {
			return nil, fmt.Errorf("%s: found %d times in the scenario file, want once", path, n)
		}
		out = at.ReplaceAll(out, []byte("${1}"+value))
	}
	return out, nil
}

// weights matches cla* with its weights, in a file or a setting.
var weights = regexp.MustCompile(`\{name: cla\*, cacheWeight: [^,}]+, loadWeight: [^,}]+\}`)

// writeWeights copies the weights of cla* from a list of policies.
func writeWeights(text []byte, policies string) ([]byte, error) {
	with := weights.FindString(policies)
	if n := len(weights.FindAll(text, -1)); n != 1 || with == "" {
		return nil, fmt.Errorf("policies: cla* with weights found %d times in the scenario file, want once", n)
	}
	return weights.ReplaceAllLiteral(text, []byte(with)), nil
}
