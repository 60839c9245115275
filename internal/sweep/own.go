package sweep

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/netkvlab/netkvlab/scenarios"
)

// quantity matches a number and its unit, as in a resolved scenario.
var quantity = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([A-Za-z/]*)$`)

// scaled returns the setting that multiplies a scenario's own number. A whole number without a
// unit stays whole.
func scaled(own *scenarios.Scenario, scale Scale) (string, error) {
	fault := func(format string, args ...any) (string, error) {
		return "", &scenarios.Error{Path: scale.Key, Msg: fmt.Sprintf(format, args...)}
	}
	text, err := own.Marshal()
	if err != nil {
		return "", err
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return "", err
	}
	at := tree.Content[0]
	for _, key := range strings.Split(scale.Key, ".") {
		if at = child(at, key); at == nil {
			return fault("is no key of scenario %s that could be scaled", own.Name)
		}
	}
	m := quantity.FindStringSubmatch(at.Value)
	if at.Kind != yaml.ScalarNode || m == nil {
		return fault("is no number in scenario %s, so it cannot be scaled", own.Name)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return fault("is no number in scenario %s: %v", own.Name, err)
	}
	v *= scale.Factor
	if m[2] == "" && !strings.Contains(m[1], ".") {
		v = math.Round(v)
	}
	// Six digits are enough for such a factor; more would only show rounding.
	v, err = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		return fault("cannot be scaled: %v", err)
	}
	return scale.Key + "=" + strconv.FormatFloat(v, 'f', -1, 64) + m[2], nil
}

// child returns the value of a mapping's key, nil if there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// ownPolicies replaces bare names in a list of policies. The label of one of the scenario's
// policies becomes that policy with its weights, so that sweeps need not repeat them.
func ownPolicies(own *scenarios.Scenario, list string) (string, error) {
	if list == "" {
		return "", nil
	}
	var tree yaml.Node
	if err := yaml.Unmarshal([]byte(list), &tree); err != nil || len(tree.Content) != 1 {
		return list, nil // the scenario's own checks report it
	}
	for i, n := range tree.Content[0].Content {
		at := slices.IndexFunc(own.Policies, func(p scenarios.Policy) bool { return p.Label == n.Value })
		if n.Kind != yaml.ScalarNode || at < 0 {
			continue
		}
		var full yaml.Node
		if err := full.Encode(own.Policies[at]); err != nil {
			return "", fmt.Errorf("policy %s: %w", n.Value, err)
		}
		full.Style = yaml.FlowStyle
		tree.Content[0].Content[i] = &full
	}
	tree.Content[0].Style = yaml.FlowStyle
	out, err := yaml.Marshal(&tree)
	if err != nil {
		return "", fmt.Errorf("policies: %w", err)
	}
	return strings.Join(strings.Fields(string(out)), " "), nil
}
