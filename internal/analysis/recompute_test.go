package analysis

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

// row is a line of requests.jsonl as an independent reader sees it: this file shares no code
// with the package, only the definitions in docs/results.md.
type row map[string]any

func (r row) num(key string) float64 { v, _ := r[key].(float64); return v }
func (r row) str(key string) string  { v, _ := r[key].(string); return v }
func (r row) has(key string) bool    { _, ok := r[key]; return ok }
func (r row) done() bool             { return r.str("status") == "completed" }

func readRows(t *testing.T, path string) []row {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var out []row
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r row
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		out = append(out, r)
	}
	return out
}

// t95 holds Student's t for 95 %, two-sided, from a table, by degrees of freedom.
var t95 = map[int]float64{1: 12.7062, 2: 4.30265, 3: 3.18245}

func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func tInterval(means []float64) float64 {
	m, sq := average(means), 0.0
	for _, v := range means {
		sq += (v - m) * (v - m)
	}
	n := float64(len(means))
	return t95[len(means)-1] * math.Sqrt(sq/(n-1)) / math.Sqrt(n)
}

func numpyPercentile(x []float64, p float64) float64 {
	sort.Float64s(x)
	at := p / 100 * float64(len(x)-1)
	low, high := int(math.Floor(at)), int(math.Ceil(at))
	return x[low]*(1-(at-float64(low))) + x[high]*(at-float64(low))
}

// figureOf recomputes one figure block of a group.
func figureOf(rows []row, value func(row) (float64, bool)) map[string]float64 {
	var all []float64
	perSeed := map[float64][]float64{}
	for _, r := range rows {
		if !r.done() {
			continue
		}
		if v, ok := value(r); ok {
			all = append(all, v)
			perSeed[r.num("seed")] = append(perSeed[r.num("seed")], v)
		}
	}
	if len(all) == 0 {
		return nil
	}
	var means []float64
	for _, v := range perSeed {
		means = append(means, average(v))
	}
	return map[string]float64{
		"n": float64(len(all)), "mean": average(all), "ci95": tInterval(means), "ci95_n": float64(len(means)),
		"p50": numpyPercentile(all, 50), "p90": numpyPercentile(all, 90), "p99": numpyPercentile(all, 99),
		"max": all[len(all)-1], "min": all[0],
	}
}

func key(name string) func(row) (float64, bool) {
	return func(r row) (float64, bool) { return r.num(name), r.has(name) }
}

func metSLO(r row) bool {
	return r.done() && r.num("ttft_ms") <= 2000 && (!r.has("tbt_ms") || r.num("tbt_ms") <= 50)
}

func TestEveryFigureCanBeRecomputedFromTheRows(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := results.Create(dir)
	require.NoError(t, err)
	records := madeRun(40)
	for i := range records {
		require.NoError(t, w.Append(records[i]))
	}
	require.NoError(t, w.Finish(Summarize(records, testMeta())))
	rows := readRows(t, filepath.Join(dir, results.RequestsFile))
	require.Len(t, rows, 3*4*3*40)

	data, err := os.ReadFile(filepath.Join(dir, results.SummaryFile))
	require.NoError(t, err)
	var sum struct {
		Worlds map[string]map[string]map[string]any `json:"worlds"`
		Gains  []row                                `json:"gains"`
	}
	require.NoError(t, json.Unmarshal(data, &sum))

	groups := map[[2]string][]row{}
	for _, r := range rows {
		k := [2]string{r.str("world"), r.str("policy")}
		groups[k] = append(groups[k], r)
	}
	require.Len(t, groups, 12)
	for k, group := range groups {
		recomputeGroup(t, sum.Worlds[k[0]][k[1]], group)
	}
	require.NotEmpty(t, sum.Gains)
	for _, g := range sum.Gains {
		recomputeGain(t, g, groups)
	}
}

// recomputeGroup checks every number of a group.
func recomputeGroup(t *testing.T, got map[string]any, rows []row) {
	t.Helper()
	want := map[string]map[string]float64{
		"ttft_ms": figureOf(rows, key("ttft_ms")), "tbt_ms": figureOf(rows, key("tbt_ms")),
		"transfer_ms": figureOf(rows, key("transfer_ms")), "prefill_ms": figureOf(rows, key("prefill_ms")),
		"decision_us": figureOf(rows, key("decision_us")),
		"queue_ms": figureOf(rows, func(r row) (float64, bool) {
			return r.num("prefill_wait_ms") + r.num("decode_wait_ms"), true
		}),
	}
	for name, figures := range want {
		if figures == nil {
			require.NotContains(t, got, name)
			continue
		}
		block := got[name].(map[string]any)
		assert.Len(t, block, len(figures)+1, "every key but ci95_method is recomputed")
		for k, v := range figures {
			assert.InEpsilon(t, v, block[k], 1e-5, "%s.%s", name, k)
		}
	}
	var completed, failed, met, moved, due, paper, wasted, again, hit, prompt float64
	tiers := map[string]float64{}
	for _, r := range rows {
		moved += r.num("moved_bytes_emulated")
		due += r.num("payload_bytes_emulated")
		paper += r.num("payload_bytes")
		wasted += r.num("wasted_bytes_emulated")
		again += r.num("retransmits")
		if metSLO(r) {
			met++
		}
		if !r.done() {
			failed++
			continue
		}
		completed++
		tiers[string(rune('0'+int(r.num("tier"))))]++
		hit += r.num("hit_tokens")
		prompt += r.num("prompt_tokens")
	}
	assert.Equal(t, map[string]any{
		"submitted": float64(len(rows)), "completed": completed, "failed": failed, "incomplete": 0.0,
	}, got["requests"])
	assert.InDelta(t, met/float64(len(rows)), got["slo_attainment"], 1e-12)
	assert.InDelta(t, peakInto(rows), got["peak_transfers_into_one"], 0)
	assert.Equal(t, []any{moved, due, paper, wasted, again, completed}, []any{
		got["bytes_moved"], got["payload_bytes_emulated"], got["payload_bytes"], got["wasted_bytes_emulated"],
		got["retransmits"], got["transfers"],
	})
	if completed > 0 {
		assert.InDelta(t, hit/prompt, got["hit_share"], 1e-12)
		for tier, share := range got["tier_share"].(map[string]any) {
			assert.InDelta(t, tiers[tier]/completed, share, 1e-12)
		}
	}
}

// peakInto counts, at the start of each transfer, the running transfers into the same instance.
func peakInto(rows []row) (peak float64) {
	end := func(r row) float64 { return r.num("transfer_start_ms") + r.num("transfer_ms") }
	for _, a := range rows {
		n := 0.0
		for _, b := range rows {
			same := a.num("seed") == b.num("seed") && a.str("decode") == b.str("decode")
			if same && b.num("transfer_start_ms") <= a.num("transfer_start_ms") && a.num("transfer_start_ms") < end(b) {
				n++
			}
		}
		peak = max(peak, n)
	}
	return peak
}

// recomputeGain checks the packet and flow figures of a gain and its gap.
func recomputeGain(t *testing.T, g row, groups map[[2]string][]row) {
	t.Helper()
	for _, world := range []string{"packet", "flow"} {
		pct, ci, ok := gainOf(groups[[2]string{world, g.str("policy")}], groups[[2]string{world, g.str("baseline")}], g.str("metric"))
		require.Equal(t, ok, g.has(world+"_pct"), "%v", g)
		if ok {
			assert.InDelta(t, pct, g.num(world+"_pct"), 1e-9)
			assert.InDelta(t, ci, g.num(world+"_ci95"), 1e-3)
		}
	}
	require.Equal(t, g.has("packet_pct"), g.has("gap_pp"))
	assert.InDelta(t, g.num("packet_pct")-g.num("flow_pct"), g.num("gap_pp"), 1e-9)
}

func gainOf(policy, baseline []row, metric string) (pct, ci float64, ok bool) {
	partner := map[[2]float64]row{}
	for _, r := range baseline {
		partner[[2]float64{r.num("seed"), r.num("id")}] = r
	}
	sums := map[float64][3]float64{} // by seed: policy, baseline, pairs
	for _, a := range policy {
		b := partner[[2]float64{a.num("seed"), a.num("id")}]
		x, y := a.num(metric), b.num(metric)
		if metric == "slo" {
			x, y = 0, 0
			if metSLO(a) {
				x = 1
			}
			if metSLO(b) {
				y = 1
			}
		} else if !a.done() || !b.done() {
			continue
		}
		s := sums[a.num("seed")]
		sums[a.num("seed")] = [3]float64{s[0] + x, s[1] + y, s[2] + 1}
	}
	effect := func(s [3]float64) float64 {
		if metric == "slo" {
			return 100 * (s[0] - s[1]) / s[2]
		}
		return 100 * (s[0]/s[1] - 1)
	}
	var total [3]float64
	var parts []float64
	for _, s := range sums {
		total = [3]float64{total[0] + s[0], total[1] + s[1], total[2] + s[2]}
		parts = append(parts, effect(s))
	}
	if total[2] == 0 {
		return 0, 0, false
	}
	return effect(total), tInterval(parts), true
}
