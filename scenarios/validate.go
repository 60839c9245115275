package scenarios

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxInstances keeps a plan within the number of namespaces that one host can hold.
	maxInstances = 4096
	// maxRackNICs is the number of addresses of a rack in the address plan.
	maxRackNICs = 250
	// traceBlock is the number of tokens of a hash id in a Mooncake trace.
	traceBlock = 512
)

// Validate reports all faults of a scenario made or changed in Go: ranges first, then relations. A
// scenario from Load or Parse needs no further check until it is changed. Values that follow from
// others (LinkRates from Oversubscription, Streams from TensorParallel) are not updated. To change
// a scenario with its derived values, give settings to Load.
func (s *Scenario) Validate() error {
	f := &faults{}
	checker{s, f}.check(false)
	return f.join()
}

// checker finds the faults of a scenario.
type checker struct {
	*Scenario
	*faults
}

// check is Validate for values of a file. Relations are checked only between
// sections that are sound in themselves, so that one fault is reported once.
// derive also fills in link rates from oversubscription, or the reverse.
func (c checker) check(derive bool) {
	c.ranges(root(), reflect.ValueOf(c.Scenario), "")
	for _, step := range []struct {
		needs string // sound sections
		run   func()
	}{
		{"topology model", c.topology},
		{"topology model", func() {
			if derive {
				deriver(c).rates()
			}
			c.rates()
		}},
		{"model", c.model},
		{"engine", c.engine},
		{"workload", c.workload},
		{"topology model placement workload.kind", c.placement},
		{"topology model placement workload", c.flows},
		{"model engine workload", c.memory},
		{"", c.policies},
		{"", c.seeds},
		{"nodes runtime", c.image},
		{"", c.marks},
	} {
		if c.clean(strings.Fields(step.needs)...) {
			step.run()
		}
	}
}

// ranges walks the whole scenario and reports every value outside its
// range, word list, pattern or length, whether a file or a program set it.
func (c checker) ranges(f *field, v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch f.kind {
	case kindSection:
		for _, key := range f.fields {
			c.ranges(key, key.at(v), joinPath(path, key.key))
		}
	case kindList:
		c.list(f, v, path)
	default:
		c.scalar(f, v, path)
	}
}

func (c checker) list(f *field, v reflect.Value, path string) {
	switch {
	case v.Len() == 0 && f.optional && !c.given(path):
	case v.Len() >= f.least && (f.most == 0 || v.Len() <= f.most):
		for i := range v.Len() {
			c.ranges(f.elem, v.Index(i), indexPath(path, i))
		}
	case c.clean(path): // else the list could not be read
		c.addf(path, "must have %d..%d items, got %d", f.least, f.most, v.Len())
	}
}

func (c checker) scalar(f *field, v reflect.Value, path string) {
	switch {
	case v.IsZero() && (f.optional || f.derived) && !c.given(path):
	case c.bad[path]: // the value is not the file's
	case len(f.enum) > 0 && !slices.Contains(f.enum, v.String()):
		c.addf(path, "%s", notOneOf("unknown value", v.String(), f.enum))
	case f.pattern != nil && !f.pattern.MatchString(v.String()):
		c.addf(path, "must be %s, got %q", f.patternDoc, clip(v.String()))
	case !f.inRange(v):
		got := f.format(v)
		if n := c.nodes[path]; n != nil && n.Kind == yaml.ScalarNode {
			got = n.Value // as the file spells it
		}
		c.addf(path, "must be %s, got %s", f.allowed(), clip(got))
	}
}

func (c checker) topology() {
	t, tp := c.Topology, c.Model.TensorParallel
	if t.GPUsPerServer%tp != 0 {
		c.addf("topology.gpusPerServer", "must be a multiple of model.tensorParallel (%d), got %d", tp, t.GPUsPerServer)
		return
	}
	if t.NICsPerInstance > tp {
		c.addf("topology.nicsPerInstance", "must be 1..%d (one a GPU of the instance: model.tensorParallel), got %d", tp, t.NICsPerInstance)
	}
	if n := t.InstancesPerRack(tp) * t.NICsPerInstance; n > maxRackNICs {
		c.addf("topology.serversPerRack", "gives a rack %d NICs (%d instances x %d), at most %d; use fewer servers a rack and more racks",
			n, t.InstancesPerRack(tp), t.NICsPerInstance, maxRackNICs)
	}
	if l := t.Latency; l.Tier2 < l.Tier1 {
		c.addf("topology.latency.tier2", "must not be below tier1 (%v), through whose links its paths go, got %v", l.Tier1, l.Tier2)
	} else if l.Tier3 < l.Tier2 {
		c.addf("topology.latency.tier3", "must not be below tier2 (%v), through whose links its paths go, got %v", l.Tier2, l.Tier3)
	}
	if n := t.Instances(tp); n > maxInstances {
		c.addf("topology.pods", "gives a cluster of %d instances, at most %d", n, maxInstances)
	}
}

func (c checker) model() {
	m := c.Model
	switch {
	case m.LatentDim > 0 && (m.KVHeads > 0 || m.HeadDim > 0):
		c.addf("model.latentDim", "excludes kvHeads and headDim: a latent vector replaces the heads; drop one of the two")
	case m.LatentDim == 0 && (m.KVHeads == 0 || m.HeadDim == 0):
		c.addf("model.kvHeads", "kvHeads and headDim must be at least 1 (or give latentDim), got %d and %d", m.KVHeads, m.HeadDim)
	}
	if b := bytesOf(m.KVDtype); m.KVDtype != "" && b != m.BytesPerElement {
		c.addf("model.bytesPerElement", "is %s, but kvDtype %s has %s; drop one of the two", formatFloat(m.BytesPerElement), m.KVDtype, formatFloat(b))
	}
}

func (c checker) engine() {
	d := c.Engine.Decode
	if d.MinFree >= d.Memory {
		c.addf("engine.decode.minFree", "must be below engine.decode.memory (%s), got %s", d.Memory, d.MinFree)
	}
	if d.Base+d.PerSequence <= 0 {
		c.addf("engine.decode.base", "base and perSequence are both 0s, so decoding would take no time; give one of them")
	}
}

// memory refuses a workload whose typical prompt fits no decode instance.
func (c checker) memory() {
	if c.Workload.Synthetic == nil {
		return
	}
	room, mean := float64(c.Engine.Decode.Memory-c.Engine.Decode.MinFree), c.Workload.Synthetic.Prompt.Mean
	if need := mean * float64(c.Model.KVBytesPerToken()); need > room {
		c.addf("engine.decode.memory", "leaves %.3gGB for KV caches, but a prompt of mean length (%s tokens) needs %.3gGB",
			room/giga, formatFloat(mean), need/giga)
	}
}

func (c checker) placement() {
	if (c.Placement.Unit == "") != (len(c.Placement.Pattern) == 0) {
		c.addf("placement", "unit and pattern go together; give both or neither")
		return
	}
	n, owner := c.Instances(), map[int]string{}
	list := func(path string, indices []int) {
		for i, index := range indices {
			at := indexPath(path, i)
			switch first, twice := owner[index]; {
			case index >= n:
				c.addf(at, "must be 0..%d (the cluster has %d instances), got %d", n-1, n, index)
			case twice:
				c.addf(at, "instance %d is listed already, at %s", index, first)
			default:
				owner[index] = at
			}
		}
	}
	list("placement.prefill", c.Placement.Prefill)
	list("placement.decode", c.Placement.Decode)
	if c.Workload.Kind == WorkloadFlows || !c.clean("placement") {
		return
	}
	roles := c.Roles()
	for _, role := range []string{RolePrefill, RoleDecode} {
		if !slices.Contains(roles, role) {
			c.addf("placement", "leaves no %s instance among the %d of the cluster; a request needs one of each", role, n)
		}
	}
}

func (c checker) workload() {
	w := c.Workload
	sections := []struct {
		kind string
		set  bool
	}{{WorkloadSynthetic, w.Synthetic != nil}, {WorkloadTrace, w.Trace != nil}, {WorkloadFlows, w.Flows != nil}}
	for _, section := range sections {
		path := "workload." + section.kind
		switch {
		case section.set && section.kind != w.Kind:
			c.addf(path, "does not go with kind %s; drop it, or set workload.kind: %s", w.Kind, section.kind)
		case !section.set && section.kind == w.Kind:
			c.addf(path, "is missing, and workload.kind is %s", w.Kind)
		}
	}
	if w.Flows != nil && w.Tenants > 1 {
		c.addf("workload.tenants", "must be 1 with workload flows, which have no scheduler, got %d", w.Tenants)
	}
	if w.Synthetic != nil {
		c.synthetic(w.Synthetic)
	}
	if w.Trace != nil {
		if w.Trace.File == "" {
			c.addf("workload.trace.file", "must name a trace in Mooncake's JSONL format")
		}
		if c.clean("engine") && c.Engine.BlockTokens != traceBlock {
			c.addf("engine.blockTokens", "must be %d with a trace, whose hash ids stand for blocks of that size, got %d", traceBlock, c.Engine.BlockTokens)
		}
	}
	if w.Flows != nil && len(w.Flows.List) == 0 && w.Flows.File == "" {
		c.addf("workload.flows", "has no flow; give a list or a file")
	}
	if w.Flows != nil && len(w.Flows.List) > 0 && w.Flows.File != "" {
		c.addf("workload.flows.file", "does not go with a list; keep one of the two")
	}
}

func (c checker) synthetic(s *Synthetic) {
	const path = "workload.synthetic"
	if s.Burstiness != 0 && s.Arrivals != "bursty" {
		c.addf(path+".burstiness", "needs arrivals: bursty, got %s", s.Arrivals)
	}
	if s.Burstiness == 0 && s.Arrivals == "bursty" {
		c.addf(path+".burstiness", "must be above 0 with arrivals: bursty")
	}
	c.lengths(s.Prompt, path+".prompt")
	c.lengths(s.Output, path+".output")
	if s.Prefix.Share > 0 && s.Prefix.Groups < 1 {
		c.addf(path+".prefix.groups", "must be at least 1 when share is above 0, got %d", s.Prefix.Groups)
	}
}

func (c checker) lengths(l LengthTokens, path string) {
	switch {
	case l.Min > l.Max:
		c.addf(path+".min", "must be at most max (%d), got %d", l.Max, l.Min)
	case l.Mean < float64(l.Min) || l.Mean > float64(l.Max):
		c.addf(path+".mean", "must be min..max (%d..%d), got %s", l.Min, l.Max, formatFloat(l.Mean))
	}
}

func (c checker) flows() {
	if c.Workload.Flows == nil {
		return
	}
	ends := newEndpoints(c.Scenario)
	for i, flow := range c.Workload.Flows.List {
		path := indexPath("workload.flows.list", i)
		for _, problem := range ends.problems(flow) {
			c.addf(path+"."+problem.key, "%s", problem.msg)
		}
	}
}

func (c checker) policies() {
	if len(c.Policies) == 0 && c.Workload.Kind != WorkloadFlows && c.clean("policies") {
		c.addf("policies", "must name at least one policy (valid: %s)", strings.Join(PolicyNames(), ", "))
	}
	labels := map[string]string{}
	for i, p := range c.Policies {
		path := indexPath("policies", i)
		if !c.clean(path) {
			continue
		}
		c.weights(p, path)
		if first, twice := labels[p.Label]; twice {
			c.addf(path, "%q is listed already, at %s; give one of them a label", p.Label, first)
			continue
		}
		labels[p.Label] = path
	}
}

func (c checker) weights(p Policy, path string) {
	none := p.CacheWeight == 0 && p.LoadWeight == 0
	switch {
	case (!none || p.Weights != "") && !weighted(p.Name):
		c.addf(path, "%s takes no weights; only cla and cla* do", p.Name)
	case p.Weights != "" && !none:
		c.addf(path, "gives both weights (a file) and cacheWeight or loadWeight; keep one of the two ways")
	case p.Weights != "":
	case none && p.Name == "cla*":
		c.addf(path, "cla* needs the weights that netkvlab tune finds; give cacheWeight and loadWeight (or weights, the file that it writes), or take cla, which has 1 and 1")
	case none && p.Name == "cla":
		c.addf(path, "cla with both weights 0 chooses by nothing; give one of them, or take random")
	}
}

func (c checker) seeds() {
	seen := map[uint64]int{}
	for i, seed := range c.Seeds {
		if first, twice := seen[seed]; twice && c.clean("seeds") {
			c.addf(indexPath("seeds", i), "seed %d is listed already, at seeds[%d]; equal seeds repeat the same trial", seed, first)
			continue
		}
		seen[seed] = i
	}
}

// image checks that an image is asked for where one runs.
func (c checker) image() {
	if c.Nodes.Image != "" && c.Runtime != RuntimeDocker {
		c.addf("nodes.image", "needs runtime: docker, got runtime: %s", c.Runtime)
	}
}

// marks checks what depends on the marks of packets: ECN and DSCP.
func (c checker) marks() {
	if c.Topology.Buffers.Queueing == QueueingFair && c.Transfer.CongestionControl == CongestionDCTCP {
		c.addf("topology.buffers.queueing", "is fair, where queues do not mark, and transfer.congestionControl dctcp lives on marks; take fifo, or cubic or reno")
	}
	if c.clean("transfer.dscp", "background.dscp") && c.Transfer.DSCP == c.Background.DSCP {
		c.addf("background.dscp", "is %d like transfer.dscp, so that nothing distinguishes the two kinds of traffic; choose another", c.Background.DSCP)
	}
}
