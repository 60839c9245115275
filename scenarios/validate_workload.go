package scenarios

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
