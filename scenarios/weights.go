package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Weights is the content of a file of weights (netkvlab tune writes one): the two
// weights of cla*, and where they come from. Only the weights have an effect; the rest
// is for readers and is kept with them.
type Weights struct {
	// CacheWeight and LoadWeight are 0..1000, not both 0.
	CacheWeight float64 `yaml:"cacheWeight"`
	LoadWeight  float64 `yaml:"loadWeight"`
	// The weights were found on Scenario. Metric is what they minimise, TunedOn the seeds
	// or the slice of the trace, and Sensitivity how flat the grid is, in words.
	Scenario    string `yaml:"scenario,omitempty"`
	Metric      string `yaml:"metric,omitempty"`
	TunedOn     string `yaml:"tunedOn,omitempty"`
	Sensitivity string `yaml:"sensitivity,omitempty"`
	// Grid is every point that was tried.
	Grid []WeightScore `yaml:"grid,omitempty"`
}

// WeightScore is one point of a grid search.
type WeightScore struct {
	CacheWeight float64 `yaml:"cacheWeight"`
	LoadWeight  float64 `yaml:"loadWeight"`
	// Score is the metric's mean over the seeds, CI95 the half width of its interval; 0 with one seed.
	Score float64 `yaml:"score"`
	CI95  float64 `yaml:"ci95,omitempty"`
}

// ReadWeights reads a file of weights. Unknown keys, a missing weight and
// weights out of range are errors of type Error that begin "file:line:".
func ReadWeights(file string) (Weights, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return Weights{}, &Error{File: file, Msg: "no such file of weights; `netkvlab tune SCENARIO --out FILE` writes one"}
		}
		return Weights{}, unreadable(file, err)
	}
	return ParseWeights(file, data)
}

// ParseWeights is ReadWeights from memory; filename names it in errors.
func ParseWeights(filename string, data []byte) (Weights, error) {
	fault := func(line int, path, format string, args ...any) (Weights, error) {
		return Weights{}, &Error{File: filename, Line: line, Path: path, Msg: fmt.Sprintf(format, args...)}
	}
	if len(data) > maxFile {
		return fault(0, "", "is larger than %d bytes, so it is no file of weights", maxFile)
	}
	f := &faults{file: filename}
	var tree yaml.Node
	if err := yaml.Unmarshal(data, &tree); err != nil {
		f.addSyntax(err, data)
		return Weights{}, f.join()
	}
	if len(tree.Content) != 1 || tree.Content[0].Kind != yaml.MappingNode {
		return fault(1, "", "must be a mapping with the keys cacheWeight and loadWeight")
	}
	top := tree.Content[0]
	known := []string{"cacheWeight", "loadWeight", "scenario", "metric", "tunedOn", "sensitivity", "grid"}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if key := top.Content[i]; !slices.Contains(known, key.Value) {
			return fault(key.Line, "", "%s", notOneOf("unknown key", key.Value, known))
		}
	}
	var w Weights
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&w); err != nil && !errors.Is(err, io.EOF) {
		return fault(0, "", "cannot be read as weights: %s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n  ", " "), "yaml: "))
	}
	for _, k := range []struct {
		key string
		v   float64
	}{{"cacheWeight", w.CacheWeight}, {"loadWeight", w.LoadWeight}} {
		at := peek(top, k.key)
		if at.Kind == 0 {
			return fault(1, k.key, "is missing; give a number of 0..1000")
		}
		if !(k.v >= 0 && k.v <= 1000) {
			return fault(at.Line, k.key, "must be 0..1000, got %s", clip(at.Value))
		}
	}
	if w.CacheWeight == 0 && w.LoadWeight == 0 {
		return fault(peek(top, "cacheWeight").Line, "cacheWeight", "and loadWeight are both 0, which chooses by nothing")
	}
	return w, nil
}

// Marshal writes the file, weights first.
func (w *Weights) Marshal() ([]byte, error) {
	data, err := encode(w)
	if err != nil {
		return nil, fmt.Errorf("write weights: %w", err)
	}
	return data, nil
}

// readWeights replaces each policy's file of weights by the weights in it, so
// a resolved scenario needs no other file.
func (s *Scenario) readWeights() error {
	var errs []error
	for i := range s.Policies {
		p := &s.Policies[i]
		if p.Weights == "" {
			continue
		}
		w, err := ReadWeights(s.Resolve(p.Weights))
		if err != nil {
			errs = append(errs, fmt.Errorf("policy %s: %w", p.Label, err))
			continue
		}
		p.CacheWeight, p.LoadWeight, p.Weights = w.CacheWeight, w.LoadWeight, ""
	}
	return errors.Join(errs...)
}
