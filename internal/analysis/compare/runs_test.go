package compare

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/analysis"
	"github.com/netkvlab/netkvlab/internal/results"
)

// folder writes a run folder with these records.
func folder(t *testing.T, scenario string, meta results.Meta, records []results.Record) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := results.Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.WriteFile(results.ScenarioFile, []byte(scenario)))
	for i := range records {
		require.NoError(t, w.Append(records[i]))
	}
	require.NoError(t, w.Finish(analysis.Summarize(records, meta)))
	return dir
}

// serve makes up a world's records: ten requests of two policies.
func serve(world string, arrivalMS float64, transfer func(policy string, id int) float64) []results.Record {
	var out []results.Record
	for _, p := range []string{"rr", "cla"} {
		for id := range 10 {
			ms := transfer(p, id)
			ttft := ms + 500
			out = append(out, results.Record{
				World: world, Policy: p, Seed: 1, ID: id, Status: results.Completed, ArrivalMS: arrivalMS + float64(id),
				PromptTokens: 100 + id, OutputTokens: 1, Tier: 2, PrefillMS: 500, TransferMS: ms, TTFTMS: &ttft,
			})
		}
	}
	return out
}

func meta(verdict string) results.Meta {
	return results.Meta{
		Version: "v1", Scenario: "made-up", Seeds: []uint64{1}, Policies: []string{"rr", "cla"},
		Fidelity: results.Fidelity{Verdict: verdict, Reasons: []string{"the host was busy"}},
	}
}

func load(t *testing.T, name string) *Source {
	t.Helper()
	s, err := Load(name)
	require.NoError(t, err)
	return s
}

func TestWorldsOfOneRunAreCompared(t *testing.T) {
	t.Parallel()
	flow := serve(results.WorldFlow, 0, func(_ string, id int) float64 { return 100 + float64(id) })
	packet := serve(results.WorldPacket, 0, func(p string, id int) float64 { return 110 + float64(id+len(p)) })
	dir := folder(t, "name: made-up\n", meta(results.VerdictDegraded), append(flow, packet...))
	c := compared(t, load(t, dir), load(t, dir+":flow"))
	assert.Equal(t, "packet", c.Sources[0].World, "packets come first")
	assert.Equal(t, "flow", c.Sources[1].World)
	assert.Equal(t, "degraded", c.Sources[0].Verdict)
	assert.Empty(t, c.Sources[1].Verdict, "nothing was emulated in it")
	for _, r := range c.Means {
		assert.InDelta(t, -10-len(r.Policy), r.Gaps[0].Value, 1e-9)
	}
	assert.Equal(t, []string{"A: fidelity degraded: the host was busy"}, c.Notes)
	_, err := Load(dir + ":replay")
	assert.ErrorContains(t, err, "no requests of the replay world: it has flow, packet")
}

func TestOtherScenariosAreSaidKeyByKey(t *testing.T) {
	t.Parallel()
	rows := serve(results.WorldFlow, 0, func(string, int) float64 { return 100 })
	a := folder(t, "name: a\ntransfer: {streams: 4, paths: random}\nseeds: [1]\n", meta(results.VerdictGood), rows)
	other := meta(results.VerdictGood)
	other.Version, other.Interrupted = "v2", true
	b := folder(t, "name: b\ntransfer: {streams: 1, paths: random}\nseeds: [1, 2]\nlimits: {drain: 1m}\n", other, rows)
	notes := strings.Join(compared(t, load(t, a), load(t, b)).Notes, "\n")
	assert.Contains(t, notes, "other scenarios (A, B): name a, b; transfer.streams 4, 1; limits.drain (absent), 1m")
	assert.Contains(t, notes, "A was made by netkvlab v1, B by v2")
	assert.Contains(t, notes, "B: was interrupted")
	assert.NotContains(t, notes, "seeds [")
}

func TestPayloadAgainstFramesIsSaid(t *testing.T) {
	t.Parallel()
	flow := serve(results.WorldFlow, 0, func(string, int) float64 { return 100 })
	packet := serve(results.WorldPacket, 0, func(string, int) float64 { return 105 })
	both := folder(t, "name: a\n", meta(results.VerdictGood), append(packet, flow...))
	alone := folder(t, "name: a\n", meta(results.VerdictGood), flow)
	assert.Contains(t, strings.Join(compared(t, load(t, both), load(t, alone)).Notes, "\n"), "B was run without packets")
	assert.Contains(t, strings.Join(compared(t, load(t, alone), load(t, both+":flow")).Notes, "\n"), "A was run without packets")
	assert.Empty(t, compared(t, load(t, both), load(t, both+":flow")).Notes)
}

func TestOtherRequestsOfTheSameNumberAreNotPaired(t *testing.T) {
	t.Parallel()
	a := folder(t, "name: a\n", meta(results.VerdictGood), serve(results.WorldFlow, 0, func(string, int) float64 { return 100 }))
	b := folder(t, "name: a\n", meta(results.VerdictGood), serve(results.WorldFlow, 7, func(string, int) float64 { return 90 }))
	c := compared(t, load(t, a), load(t, b))
	assert.Contains(t, strings.Join(c.Notes, "\n"), "10 pairs of seed and request name another request")
	for _, r := range c.Means {
		assert.False(t, r.Paired)
		assert.InDelta(t, -10, r.Gaps[0].Value, 1e-9)
	}
}
