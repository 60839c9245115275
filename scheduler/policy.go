package scheduler

import "fmt"

// PolicyOptions are the weights of the policies that have any.
type PolicyOptions struct {
	CacheWeight, LoadWeight float64
}

// Names lists the policies in the order in which documents list them.
func Names() []string {
	return []string{"random", "rr", "least-loaded", "ca", "cla", "cla*", "llmd", "llmd-default", "llmd-topology", "sglang", "dynamo", "netkv-topo", "netkv-static", "netkv-full"}
}

// New returns a policy by name.
func New(name string, opt PolicyOptions) (Policy, error) {
	return nil, fmt.Errorf("policy %q is unknown", name)
}
