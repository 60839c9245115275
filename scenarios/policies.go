package scenarios

// policies are the scheduling policies and their rules, simplest first.
var policies = []struct{ name, rule string }{
	{"random", "any feasible decode instance, uniformly"},
	{"rr", "round robin over the feasible decode instances"},
	{"least-loaded", "the fewest sequences queued and running"},
	{"ca", "cache-aware: the longest prefix hit, ties at random"},
	{"cla", "cache and load: weighted prefix hit minus weighted load"},
	{"cla*", "cla with the weights that `netkvlab tune` found, given as cacheWeight and loadWeight or as the file it wrote"},
	{"llmd", "llm-d's deployed scorers: 2 x prefix + 1 x queue"},
	{"llmd-default", "llm-d without a configuration file: 3 x prefix + 2 x queue + 2 x free KV memory"},
	{"llmd-topology", "llm-d's newer topology affinity: same host 1, rack 0.2, zone 0.05"},
	{"sglang", "SGLang's cache_aware: prefix match above a threshold, else load"},
	{"dynamo", "Dynamo's decode router: the fewest active decode blocks"},
	{"netkv-topo", "Algorithm 1 with the static tier map alone"},
	{"netkv-static", "Algorithm 1 with tiers and self-contention"},
	{"netkv-full", "Algorithm 1 with tiers, self-contention and measured congestion"},
}

// weighted reports whether the policy of that name takes cacheWeight and loadWeight.
func weighted(name string) bool { return name == "cla" || name == "cla*" }

// PolicyNames lists the valid names of Policy.Name.
func PolicyNames() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

// NewPolicy returns the policy that a bare name in a file gives: labelled by its name, cla with the
// weights 1 and 1. Validate reports an unknown name; cla* still needs its weights.
func NewPolicy(name string) Policy {
	p := Policy{Name: name, Label: name}
	if name == "cla" {
		p.CacheWeight, p.LoadWeight = 1, 1
	}
	return p
}
