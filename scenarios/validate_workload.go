package scenarios

import (
	"fmt"
	"regexp"
	"slices"
)

// switchName is what a flow may name in via: tor, agg or core, with group and number.
var switchName = regexp.MustCompile(`^(tor|agg|core)[0-9]{1,3}-[0-9]{1,3}$`)

func (s *Scenario) checkWorkload(f *faults) {
	w := s.Workload
	sections := []struct {
		kind string
		set  bool
	}{{WorkloadSynthetic, w.Synthetic != nil}, {WorkloadTrace, w.Trace != nil}, {WorkloadFlows, w.Flows != nil}}
	for _, section := range sections {
		path := "workload." + section.kind
		switch {
		case section.set && section.kind != w.Kind:
			f.addf(path, "does not go with kind %s; drop it, or set workload.kind: %s", w.Kind, section.kind)
		case !section.set && section.kind == w.Kind:
			f.addf(path, "is missing, and workload.kind is %s", w.Kind)
		}
	}
	if w.Synthetic != nil {
		w.Synthetic.check(f)
	}
	if w.Trace != nil {
		if w.Trace.File == "" {
			f.addf("workload.trace.file", "must name a trace in Mooncake's JSONL format")
		}
		if f.clean("engine") && s.Engine.BlockTokens != traceBlock {
			f.addf("engine.blockTokens", "must be %d with a trace, whose hash ids stand for blocks of that size, got %d", traceBlock, s.Engine.BlockTokens)
		}
	}
	if w.Flows != nil && len(w.Flows.List) == 0 && w.Flows.File == "" {
		f.addf("workload.flows", "has no flow; give a list or a file")
	}
	if w.Flows != nil && len(w.Flows.List) > 0 && w.Flows.File != "" {
		f.addf("workload.flows.file", "does not go with a list; keep one of the two")
	}
}

func (s *Synthetic) check(f *faults) {
	const path = "workload.synthetic"
	if s.Burstiness != 0 && s.Arrivals != "bursty" {
		f.addf(path+".burstiness", "needs arrivals: bursty, got %s", s.Arrivals)
	}
	if s.Burstiness == 0 && s.Arrivals == "bursty" {
		f.addf(path+".burstiness", "must be above 0 with arrivals: bursty")
	}
	s.Prompt.check(f, path+".prompt")
	s.Output.check(f, path+".output")
	if s.Prefix.Share > 0 && s.Prefix.Groups < 1 {
		f.addf(path+".prefix.groups", "must be at least 1 when share is above 0, got %d", s.Prefix.Groups)
	}
}

func (l LengthTokens) check(f *faults, path string) {
	switch {
	case l.Min > l.Max:
		f.addf(path+".min", "must be at most max (%d), got %d", l.Max, l.Min)
	case l.Mean < float64(l.Min) || l.Mean > float64(l.Max):
		f.addf(path+".mean", "must be min..max (%d..%d), got %s", l.Min, l.Max, formatFloat(l.Mean))
	}
}

func (s *Scenario) checkFlows(f *faults) {
	if s.Workload.Flows == nil {
		return
	}
	names := s.InstanceNames()
	for i, flow := range s.Workload.Flows.List {
		path := indexPath("workload.flows.list", i)
		for _, problem := range flow.problems(s, names) {
			f.addf(path+"."+problem.key, "%s", problem.msg)
		}
	}
}

type flowProblem struct{ key, msg string }

// problems says what a flow breaks on the scenario's cluster, whose instances have these names.
func (fl Flow) problems(s *Scenario, names []string) []flowProblem {
	var list []flowProblem
	for _, end := range []struct{ key, name string }{{"from", fl.From}, {"to", fl.To}} {
		if !slices.Contains(names, end.name) {
			list = append(list, flowProblem{end.key, unknownInstance(end.name, names)})
		}
	}
	if fl.From == fl.To && len(list) == 0 {
		list = append(list, flowProblem{"to", fmt.Sprintf("is %s like from; a transfer needs two instances", fl.To)})
	}
	if msg := s.viaProblem(slices.Index(names, fl.From), slices.Index(names, fl.To), fl.Via); msg != "" {
		list = append(list, flowProblem{"via", msg})
	}
	return list
}

// unknownInstance lists the instances there are, role by role.
func unknownInstance(name string, names []string) string {
	msg := fmt.Sprintf("unknown instance %q; this cluster has", clip(name))
	sep := " "
	for _, role := range []string{RolePrefill, RoleDecode, RoleIdle} {
		last := -1
		for _, n := range names {
			if n[:1] == role[:1] {
				last++
			}
		}
		if last >= 0 {
			msg += fmt.Sprintf("%s%s0..%s%d (%s)", sep, role[:1], role[:1], last, role)
			sep = ", "
		}
	}
	return msg
}
