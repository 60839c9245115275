package scenarios

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
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
		Model:     modelPreset(known(c.model, modelNames())),
		Engine:    enginePreset(known(c.engine, engineNames())),
		Workload:  Workload{Kind: known(c.workload, workloadKinds), Tenants: 1},
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
		synthetic := profile(known(c.profile, profileNames()))
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

// deriver fills in what follows from other keys, once the file is read.
type deriver struct {
	*Scenario
	*faults
}

// derive fills in all but the name and the rates, which follow when the topology is known to be sound.
func (d deriver) derive() {
	d.placement()
	d.model()
	d.burstiness()
	if !d.given("transfer.streams") {
		d.Transfer.Streams = d.Model.TensorParallel
	}
	d.policies()
}

// name takes the file's base name where a file gives no name.
func (d deriver) name() {
	if d.given("name") {
		return
	}
	base := filepath.Base(d.file)
	d.Name = strings.TrimSuffix(base, filepath.Ext(base))
	if name := root().child("name"); !name.pattern.MatchString(d.Name) {
		d.addf("name", "is missing, and the file's name %q is none; give %s", clip(d.Name), name.patternDoc)
	}
}

// placement: lists replace the default pattern, and a pattern replaces the lists;
// a file that gives both contradicts itself.
func (d deriver) placement() {
	listed := d.given("placement.prefill") || d.given("placement.decode")
	patterned := d.given("placement.unit") || d.given("placement.pattern")
	switch {
	case listed && patterned:
		d.addf("placement", "gives both unit or pattern and lists of instances; keep one of the two ways")
	case listed:
		d.Placement.Unit, d.Placement.Pattern = "", nil
	case patterned && d.Workload.Kind == WorkloadFlows:
		d.Placement.Unit = cmp.Or(d.Placement.Unit, "rack")
		if d.Placement.Pattern == nil {
			d.Placement.Pattern = []string{RolePrefill, RoleDecode}
		}
	}
}

func (d deriver) model() {
	m := &d.Model
	if d.given("model.latentDim") && m.LatentDim > 0 && !d.given("model.kvHeads") && !d.given("model.headDim") {
		m.KVHeads, m.HeadDim = 0, 0 // a latent vector replaces the preset's heads
	}
	if (d.given("model.kvHeads") || d.given("model.headDim")) && m.KVHeads > 0 && !d.given("model.latentDim") {
		m.LatentDim = 0
	}
	const bytes, dtype = "model.bytesPerElement", "model.kvDtype"
	switch {
	case !d.given(bytes) || d.overruled(bytes, dtype):
		m.BytesPerElement = cmp.Or(bytesOf(m.KVDtype), 2)
	case !d.given(dtype) || d.overruled(dtype, bytes):
		m.KVDtype = dtypeOf(m.BytesPerElement)
	}
}

func (d deriver) burstiness() {
	syn := d.Workload.Synthetic
	if syn != nil && syn.Arrivals == "bursty" && !d.given("workload.synthetic.burstiness") {
		syn.Burstiness = 4
	}
}

// derivePolicies gives each policy the defaults of its bare name.
func (d deriver) policies() {
	for i := range d.Policies {
		p, path := &d.Policies[i], indexPath("policies", i)
		bare := NewPolicy(p.Name)
		if !d.given(path + ".label") {
			p.Label = bare.Label
		}
		weights := p.Weights == "" // else they are in the file
		if weights && !d.given(path+".cacheWeight") {
			p.CacheWeight = bare.CacheWeight
		}
		if weights && !d.given(path+".loadWeight") {
			p.LoadWeight = bare.LoadWeight
		}
	}
}
