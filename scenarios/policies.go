package scenarios

// PolicyInfo is the name of a scheduling policy and its description.
type PolicyInfo struct {
	Name, Summary string
	// Weighted policies take cacheWeight and loadWeight.
	Weighted bool
}

// Policies lists every policy, simplest first.
func Policies() []PolicyInfo {
	return []PolicyInfo{
		{Name: "random", Summary: "any feasible decode instance, uniformly"},
		{Name: "rr", Summary: "round robin over the feasible decode instances"},
		{Name: "least-loaded", Summary: "the fewest sequences queued and running"},
		{Name: "ca", Summary: "cache-aware: the longest prefix hit, ties at random"},
		{Name: "cla", Summary: "cache and load: weighted prefix hit minus weighted load", Weighted: true},
		{Name: "cla*", Summary: "cla with the weights that `netkvlab tune` found, given as cacheWeight and loadWeight or as the file it wrote", Weighted: true},
		{Name: "llmd", Summary: "llm-d's deployed scorers: 2 x prefix + 1 x queue"},
		{Name: "llmd-default", Summary: "llm-d without a configuration file: 3 x prefix + 2 x queue + 2 x free KV memory"},
		{Name: "llmd-topology", Summary: "llm-d's newer topology affinity: same host 1, rack 0.2, zone 0.05"},
		{Name: "sglang", Summary: "SGLang's cache_aware: prefix match above a threshold, else load"},
		{Name: "dynamo", Summary: "Dynamo's decode router: the fewest active decode blocks"},
		{Name: "netkv-topo", Summary: "Algorithm 1 with the static tier map alone"},
		{Name: "netkv-static", Summary: "Algorithm 1 with tiers and self-contention"},
		{Name: "netkv-full", Summary: "Algorithm 1 with tiers, self-contention and measured congestion"},
	}
}

// PolicyNames lists the valid names of Policy.Name.
func PolicyNames() []string {
	var names []string
	for _, p := range Policies() {
		names = append(names, p.Name)
	}
	return names
}

// NewPolicy returns the policy that a bare name in a file gives:
// labelled by its name, cla with the weights 1 and 1. Validate reports an unknown
// name; cla* still needs its weights.
func NewPolicy(name string) Policy {
	p := Policy{Name: name, Label: name}
	if name == "cla" {
		p.CacheWeight, p.LoadWeight = 1, 1
	}
	return p
}

// weighted reports whether the policy of that name takes weights.
func weighted(name string) bool {
	for _, p := range Policies() {
		if p.Name == name {
			return p.Weighted
		}
	}
	return false
}
