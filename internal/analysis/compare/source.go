package compare

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// Source is one side of a comparison, ready to be compared. It is not changed once loaded.
type Source struct {
	info      SourceInfo
	run       *results.Run // nil for a CSV file
	figures   map[column]map[analysis.Key]float64
	columns   map[column]analysis.Column   // the figures; set by finish
	prints    map[analysis.Key]fingerprint // show whether a key names the same request in two sources; empty for a CSV file
	requests  map[string]int               // by policy
	completed map[string]int
	payload   bool     // of a run without packets: its links carry payload at their full rate
	ignored   []string // unknown columns of a CSV file
}

type column struct{ policy, metric string }

// fingerprint identifies a request.
type fingerprint struct {
	arrivalMS float64
	tokens    int
}

// Load reads what an argument names: a run folder, a run folder and one of its worlds
// (DIR:packet, DIR:flow, DIR:replay), or a CSV file. If no world is named, it takes the packet
// world if that ran, else the flow world. Errors name the file and, if there is one, the line.
func Load(name string) (*Source, error) {
	path, world := name, ""
	info, err := os.Stat(path)
	if err != nil {
		if i := strings.LastIndex(name, ":"); i >= 0 && slices.Contains(worldNames, name[i+1:]) {
			path, world = name[:i], name[i+1:]
			info, err = os.Stat(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: no run folder and no CSV file: %w", name, err)
	}
	if !info.IsDir() {
		if world != "" {
			return nil, fmt.Errorf("%s: a CSV file has no worlds: name it without :%s", name, world)
		}
		return loadCSV(path)
	}
	run, err := results.Open(path)
	if err != nil {
		return nil, err
	}
	s, err := ofRun(run, world)
	if err != nil {
		return nil, err
	}
	s.info.Name = name
	return s, nil
}

// worldNames is in the order in which a world is chosen if none is named.
var worldNames = []string{results.WorldPacket, results.WorldFlow, results.WorldReplay}

func newSource(name string) *Source {
	return &Source{
		info: SourceInfo{Name: name, Policies: []string{}, Seeds: []uint64{}}, figures: map[column]map[analysis.Key]float64{}, columns: map[column]analysis.Column{}, prints: map[analysis.Key]fingerprint{},
		requests: map[string]int{}, completed: map[string]int{},
	}
}

// ofRun takes one world's records out of a run.
func ofRun(run *results.Run, world string) (*Source, error) {
	ran := map[string]bool{}
	for i := range run.Records {
		ran[run.Records[i].World] = true
	}
	if len(ran) == 0 {
		return nil, fmt.Errorf("%s: the run has no requests", run.Dir)
	}
	for _, w := range worldNames {
		if world == "" && ran[w] {
			world = w
		}
	}
	if !ran[world] {
		return nil, fmt.Errorf("%s: no requests of the %s world: it has %s", run.Dir, world, strings.Join(slices.Sorted(maps.Keys(ran)), ", "))
	}
	s := newSource(run.Dir)
	s.run, s.payload = run, !ran[results.WorldPacket]
	s.info.World, s.info.Scenario = world, run.Summary.Scenario
	if world == results.WorldPacket {
		s.info.Verdict = run.Summary.Fidelity.Verdict
	}
	for i := range run.Records {
		r := &run.Records[i]
		if r.World != world {
			continue
		}
		key := analysis.Key{Seed: r.Seed, ID: r.ID}
		s.prints[key] = fingerprint{r.ArrivalMS, r.PromptTokens}
		s.add(r.Policy, key, r.Status, r.TTFTMS, &r.TransferMS)
	}
	s.finish(run.Summary.Policies)
	return s, nil
}

// add takes one request's figures, nil where it has none.
func (s *Source) add(policy string, key analysis.Key, status string, ttft, transfer *float64) {
	s.requests[policy]++
	s.info.Requests++
	if status != results.Completed {
		return
	}
	s.completed[policy]++
	s.info.Completed++
	for metric, v := range map[string]*float64{results.MetricTTFT: ttft, results.MetricTransfer: transfer} {
		if v == nil {
			continue
		}
		c := column{policy, metric}
		if s.figures[c] == nil {
			s.figures[c] = map[analysis.Key]float64{}
		}
		s.figures[c][key] = *v
	}
}

// finish sorts the policies: the given ones first, then the others by name.
func (s *Source) finish(given []string) {
	for _, p := range append(slices.Clone(given), slices.Sorted(maps.Keys(s.requests))...) {
		if s.requests[p] > 0 && !slices.Contains(s.info.Policies, p) {
			s.info.Policies = append(s.info.Policies, p)
		}
	}
	for c, figures := range s.figures {
		s.columns[c] = analysis.NewColumn(figures)
		for k := range figures {
			if !slices.Contains(s.info.Seeds, k.Seed) {
				s.info.Seeds = append(s.info.Seeds, k.Seed)
			}
		}
	}
	slices.Sort(s.info.Seeds)
	s.figures = nil
}

// Label is the source's name with the world that was taken.
func (s *Source) Label() string {
	if s.info.World == "" || strings.HasSuffix(s.info.Name, ":"+s.info.World) {
		return s.info.Name
	}
	return s.info.Name + " (" + s.info.World + ")"
}
