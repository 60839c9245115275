package scenarios

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

const (
	// maxInstances keeps a plan within the number of namespaces that one host can hold.
	maxInstances = 4096
	// maxRackNICs is the number of addresses of a rack in the address plan.
	maxRackNICs = 250
	// traceBlock is the number of tokens of a hash id in a Mooncake trace.
	traceBlock = 512
)

// Validate reports all faults of a scenario made or changed in Go:
// ranges first, then relations. A scenario from Load or Parse needs no further
// check until it is changed. Values that follow from others (LinkRates from
// Oversubscription, Streams from TensorParallel) are not updated. To change a
// scenario with its derived values, give settings to Load.
func (s *Scenario) Validate() error {
	f := &faults{}
	s.check(f, false)
	return f.join()
}

// check is Validate for values of a file. Relations are checked only between
// sections that are sound in themselves, so that one fault is reported once.
// derive also fills in link rates from oversubscription, or the reverse.
func (s *Scenario) check(f *faults, derive bool) {
	f.checkRanges(root(), reflect.ValueOf(s), "")
	if f.clean("topology", "model") {
		s.checkTopology(f)
	}
	if f.clean("topology", "model") {
		if derive {
			s.deriveRates(f)
		}
		s.checkRates(f)
	}
	if f.clean("model") {
		s.checkModel(f)
	}
	if f.clean("engine") {
		s.checkEngine(f)
	}
	if f.clean("workload") {
		s.checkWorkload(f)
	}
	if f.clean("topology", "model", "placement", "workload.kind") {
		s.checkPlacement(f)
	}
	if f.clean("topology", "model", "placement", "workload") {
		s.checkFlows(f)
	}
	if f.clean("model", "engine", "workload") {
		s.checkMemory(f)
	}
	s.checkPolicies(f)
	s.checkSeeds(f)
	if f.clean("nodes", "runtime") && s.Nodes.Image != "" && s.Runtime != RuntimeDocker {
		f.addf("nodes.image", "needs runtime: docker, got runtime: %s", s.Runtime)
	}
	if s.Topology.Buffers.Queueing == QueueingFair && s.Transfer.CongestionControl == CongestionDCTCP {
		f.addf("topology.buffers.queueing", "is fair, where queues do not mark, and transfer.congestionControl dctcp lives on marks; take fifo, or cubic or reno")
	}
	if f.clean("transfer.dscp", "background.dscp") && s.Transfer.DSCP == s.Background.DSCP {
		f.addf("background.dscp", "is %d like transfer.dscp, so the two kinds of traffic cannot be told apart; choose another", s.Background.DSCP)
	}
}

func (s *Scenario) checkTopology(f *faults) {
	t, tp := s.Topology, s.Model.TensorParallel
	if t.GPUsPerServer%tp != 0 {
		f.addf("topology.gpusPerServer", "must be a multiple of model.tensorParallel (%d), got %d", tp, t.GPUsPerServer)
		return
	}
	if t.NICsPerInstance > tp {
		f.addf("topology.nicsPerInstance", "must be 1..%d (one a GPU of the instance: model.tensorParallel), got %d", tp, t.NICsPerInstance)
	}
	if n := t.InstancesPerRack(tp) * t.NICsPerInstance; n > maxRackNICs {
		f.addf("topology.serversPerRack", "gives a rack %d NICs (%d instances x %d), at most %d; use fewer servers a rack and more racks",
			n, t.InstancesPerRack(tp), t.NICsPerInstance, maxRackNICs)
	}
	if l := t.Latency; l.Tier2 < l.Tier1 {
		f.addf("topology.latency.tier2", "must not be below tier1 (%v), through whose links its paths go, got %v", l.Tier1, l.Tier2)
	} else if l.Tier3 < l.Tier2 {
		f.addf("topology.latency.tier3", "must not be below tier2 (%v), through whose links its paths go, got %v", l.Tier2, l.Tier3)
	}
	if n := t.Instances(tp); n > maxInstances {
		f.addf("topology.pods", "gives a cluster of %d instances, at most %d", n, maxInstances)
	}
}

func (s *Scenario) checkModel(f *faults) {
	m := s.Model
	switch {
	case m.LatentDim > 0 && (m.KVHeads > 0 || m.HeadDim > 0):
		f.addf("model.latentDim", "excludes kvHeads and headDim: a latent vector replaces the heads; drop one of the two")
	case m.LatentDim == 0 && (m.KVHeads == 0 || m.HeadDim == 0):
		f.addf("model.kvHeads", "kvHeads and headDim must be at least 1 (or give latentDim), got %d and %d", m.KVHeads, m.HeadDim)
	}
	if b := bytesOf(m.KVDtype); m.KVDtype != "" && b != m.BytesPerElement {
		f.addf("model.bytesPerElement", "is %s, but kvDtype %s has %s; drop one of the two", formatFloat(m.BytesPerElement), m.KVDtype, formatFloat(b))
	}
}

func (s *Scenario) checkEngine(f *faults) {
	d := s.Engine.Decode
	if d.MinFree >= d.Memory {
		f.addf("engine.decode.minFree", "must be below engine.decode.memory (%s), got %s", d.Memory, d.MinFree)
	}
	if d.Base+d.PerSequence <= 0 {
		f.addf("engine.decode.base", "base and perSequence are both 0s, so decoding would take no time; give one of them")
	}
}

// checkMemory refuses a workload whose typical prompt fits no decode instance.
func (s *Scenario) checkMemory(f *faults) {
	syn := s.Workload.Synthetic
	if syn == nil {
		return
	}
	room := float64(s.Engine.Decode.Memory - s.Engine.Decode.MinFree)
	if need := syn.Prompt.Mean * float64(s.Model.KVBytesPerToken()); need > room {
		f.addf("engine.decode.memory", "leaves %.3gGB for KV caches, but a prompt of mean length (%s tokens) needs %.3gGB",
			room/giga, formatFloat(syn.Prompt.Mean), need/giga)
	}
}

func (s *Scenario) checkPlacement(f *faults) {
	if s.Placement.Unit != "" && len(s.Placement.Pattern) == 0 || s.Placement.Unit == "" && len(s.Placement.Pattern) > 0 {
		f.addf("placement", "unit and pattern go together; give both or neither")
		return
	}
	n, owner := s.Instances(), map[int]string{}
	list := func(path string, indices []int) {
		for i, index := range indices {
			at := indexPath(path, i)
			switch first, twice := owner[index]; {
			case index >= n:
				f.addf(at, "must be 0..%d (the cluster has %d instances), got %d", n-1, n, index)
			case twice:
				f.addf(at, "instance %d is listed already, at %s", index, first)
			default:
				owner[index] = at
			}
		}
	}
	list("placement.prefill", s.Placement.Prefill)
	list("placement.decode", s.Placement.Decode)
	if s.Workload.Kind == WorkloadFlows || !f.clean("placement") {
		return
	}
	roles := s.Roles()
	for _, role := range []string{RolePrefill, RoleDecode} {
		if !slices.Contains(roles, role) {
			f.addf("placement", "leaves no %s instance among the %d of the cluster; a request needs one of each", role, n)
		}
	}
}

func (s *Scenario) checkPolicies(f *faults) {
	if len(s.Policies) == 0 && s.Workload.Kind != WorkloadFlows && f.clean("policies") {
		f.addf("policies", "must name at least one policy (valid: %s)", strings.Join(PolicyNames(), ", "))
	}
	labels := map[string]string{}
	for i, p := range s.Policies {
		path := indexPath("policies", i)
		if !f.clean(path) {
			continue
		}
		p.checkWeights(f, path)
		if first, twice := labels[p.Label]; twice {
			f.addf(path, "%q is listed already, at %s; give one of them a label", p.Label, first)
			continue
		}
		labels[p.Label] = path
	}
}

func (p Policy) checkWeights(f *faults, path string) {
	none := p.CacheWeight == 0 && p.LoadWeight == 0
	switch {
	case (!none || p.Weights != "") && !weighted(p.Name):
		f.addf(path, "%s takes no weights; only cla and cla* do", p.Name)
	case p.Weights != "" && !none:
		f.addf(path, "gives both weights (a file) and cacheWeight or loadWeight; keep one of the two ways")
	case p.Weights != "":
	case none && p.Name == "cla*":
		f.addf(path, "cla* needs the weights that netkvlab tune finds; give cacheWeight and loadWeight (or weights, the file that it writes), or take cla, which has 1 and 1")
	case none && p.Name == "cla":
		f.addf(path, "cla with both weights 0 chooses by nothing; give one of them, or take random")
	}
}

func (s *Scenario) checkSeeds(f *faults) {
	seen := map[uint64]int{}
	for i, seed := range s.Seeds {
		if first, twice := seen[seed]; twice && f.clean("seeds") {
			f.addf(indexPath("seeds", i), "seed %d is listed already, at seeds[%d]; equal seeds repeat the same trial", seed, first)
			continue
		}
		seen[seed] = i
	}
}

// Resolve makes a file name of the scenario (Trace.File, Flows.File, Policy.Weights) usable:
// relative names start at Dir.
func (s *Scenario) Resolve(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(s.Dir, file)
}
