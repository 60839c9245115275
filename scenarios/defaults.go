package scenarios

import (
	"cmp"
	"slices"
	"time"
)

// choice holds the keys that decide which defaults apply.
type choice struct{ model, engine, workload, profile string }

// defaults is the scenario whose values a file overrides: the NetKV paper's 64-GPU cluster
// under RAG load (see paper-64gpu.yaml). A choice that is empty or unknown
// becomes the first of its kind; the checks report unknown choices.
func defaults(c choice) *Scenario {
	known := func(name string, names []string) string {
		if slices.Contains(names, name) {
			return name
		}
		return names[0]
	}
	s := &Scenario{
		Topology:  defaultTopology(),
		Placement: Placement{Unit: "rack", Pattern: []string{RolePrefill, RoleDecode}},
		Model:     modelPreset(known(c.model, ModelNames())),
		Engine:    enginePreset(known(c.engine, EngineNames())),
		Workload:  Workload{Kind: known(c.workload, []string{WorkloadSynthetic, WorkloadTrace, WorkloadFlows}), Tenants: 1},
		Transfer: Transfer{
			Chunk: 64 * kibi, Mode: ModePush, Overlap: OverlapNone, OverlapChunk: 2048, DSCP: 10,
			CongestionControl: "cubic", Paths: PathsRandom, Timeout: 2 * time.Minute, Retries: 2,
		},
		Background: Background{Kind: BackgroundUDP, DSCP: 8},
		Oracle:     Oracle{Refresh: time.Second, Separation: SeparationDSCP, InFlightCap: 16},
		Policies:   []Policy{NewPolicy("rr"), NewPolicy("cla"), NewPolicy("netkv-full")},
		Seeds:      []uint64{1},
		SLO:        SLO{TTFT: 4 * time.Second, TBT: 100 * time.Millisecond},
		Scale:      Scale{Time: 1},
		Runtime:    RuntimeProcess,
		Limits:     Limits{Drain: 2 * time.Minute, Repeats: 2},
	}
	switch s.Workload.Kind {
	case WorkloadTrace:
		s.Workload.Trace = &Trace{RateScale: 1}
	case WorkloadFlows:
		s.Workload.Flows = &Flows{}
		s.Placement, s.Policies = Placement{}, nil
	default:
		synthetic := profile(known(c.profile, ProfileNames()))
		s.Workload.Synthetic = &synthetic
	}
	return s
}

func defaultTopology() Topology {
	return Topology{
		Pods: 4, RacksPerPod: 2, ServersPerRack: 1, GPUsPerServer: 8,
		AggsPerPod: 2, CoresPerAgg: 2,
		NICsPerInstance: 1, NICRate: 100 * giga, NVLinkRate: 8 * 450 * giga,
		Oversubscription: Oversubscription{Rack: 2, Pod: 4},
		Latency: TierLatency{
			Tier0: 1 * time.Microsecond, Tier1: 3 * time.Microsecond,
			Tier2: 8 * time.Microsecond, Tier3: 15 * time.Microsecond,
		},
		Buffers: Buffers{Queueing: QueueingFIFO},
	}
}

// derive fills in what follows from other keys, once the file is read; rates
// follow when the topology is known to be sound (rates.go).
func (s *Scenario) derive(f *faults) {
	s.derivePlacement(f)
	s.deriveModel(f)
	s.deriveWorkload(f)
	if !f.given("transfer.streams") {
		s.Transfer.Streams = s.Model.TensorParallel
	}
	s.derivePolicies(f)
}

// derivePlacement: lists replace the default pattern, and a pattern replaces the lists;
// a file that gives both contradicts itself.
func (s *Scenario) derivePlacement(f *faults) {
	listed := f.given("placement.prefill") || f.given("placement.decode")
	patterned := f.given("placement.unit") || f.given("placement.pattern")
	switch {
	case listed && patterned:
		f.addf("placement", "gives both unit or pattern and lists of instances; keep one of the two ways")
	case listed:
		s.Placement.Unit, s.Placement.Pattern = "", nil
	case patterned && s.Workload.Kind == WorkloadFlows:
		s.Placement.Unit = cmp.Or(s.Placement.Unit, "rack")
		if s.Placement.Pattern == nil {
			s.Placement.Pattern = []string{RolePrefill, RoleDecode}
		}
	}
}

func (s *Scenario) deriveModel(f *faults) {
	m := &s.Model
	if f.given("model.latentDim") && m.LatentDim > 0 && !f.given("model.kvHeads") && !f.given("model.headDim") {
		m.KVHeads, m.HeadDim = 0, 0 // a latent vector replaces the preset's heads
	}
	if (f.given("model.kvHeads") || f.given("model.headDim")) && m.KVHeads > 0 && !f.given("model.latentDim") {
		m.LatentDim = 0
	}
	const bytes, dtype = "model.bytesPerElement", "model.kvDtype"
	switch {
	case !f.given(bytes) || f.overruled(bytes, dtype):
		m.BytesPerElement = cmp.Or(bytesOf(m.KVDtype), 2)
	case !f.given(dtype) || f.overruled(dtype, bytes):
		m.KVDtype = dtypeOf(m.BytesPerElement)
	}
}

func (s *Scenario) deriveWorkload(f *faults) {
	syn := s.Workload.Synthetic
	if syn == nil || f.given("workload.synthetic.burstiness") {
		return
	}
	if syn.Arrivals == "bursty" {
		syn.Burstiness = 4
	}
}

// derivePolicies gives each policy the defaults of its bare name.
func (s *Scenario) derivePolicies(f *faults) {
	for i := range s.Policies {
		p, path := &s.Policies[i], indexPath("policies", i)
		bare := NewPolicy(p.Name)
		if !f.given(path + ".label") {
			p.Label = bare.Label
		}
		if p.Weights != "" {
			continue // the weights are in the file
		}
		if !f.given(path + ".cacheWeight") {
			p.CacheWeight = bare.CacheWeight
		}
		if !f.given(path + ".loadWeight") {
			p.LoadWeight = bare.LoadWeight
		}
	}
}
