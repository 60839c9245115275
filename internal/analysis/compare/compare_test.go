package compare

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

// csvOf makes up a simulator's results: 40 requests of two policies in each seed.
// edit changes a request's transfer; false leaves the request out.
func csvOf(seeds []uint64, edit func(policy string, seed uint64, id int, ms float64) (float64, bool)) string {
	var b strings.Builder
	b.WriteString("policy,seed,id,ttft_ms,transfer_ms\n")
	for _, p := range []string{"rr", "netkv-full"} {
		for _, seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, uint64(len(p))))
			for id := range 40 {
				ms := 500 + 400*rng.Float64()
				if p != "rr" {
					ms *= 0.7
				}
				if edit != nil {
					var ok bool
					if ms, ok = edit(p, seed, id, ms); !ok {
						continue
					}
				}
				fmt.Fprintf(&b, "%s,%d,%d,%g,%g\n", p, seed, id, ms+1000, ms)
			}
		}
	}
	return b.String()
}

func read(t *testing.T, name, text string) *Source {
	t.Helper()
	s, err := readCSV(strings.NewReader(text), name)
	require.NoError(t, err)
	return s
}

func compared(t *testing.T, sources ...*Source) *Comparison {
	t.Helper()
	c, err := Compare(sources)
	require.NoError(t, err)
	return c
}

func TestSourceComparedWithItselfHasNoGap(t *testing.T) {
	t.Parallel()
	text := csvOf([]uint64{1, 2}, nil)
	c := compared(t, read(t, "a.csv", text), read(t, "b.csv", text))
	require.Len(t, c.Means, 4)
	require.Len(t, c.Gains, 2)
	for _, r := range append(c.Means, c.Gains...) {
		require.Empty(t, r.Reason)
		assert.True(t, r.Paired)
		assert.Equal(t, r.Values[0], r.Values[1])
		require.Len(t, r.Gaps, 1)
		assert.Zero(t, r.Gaps[0].Value)
		require.NotNil(t, r.Gaps[0].CI95)
		assert.Zero(t, *r.Gaps[0].CI95)
		assert.Equal(t, 80, r.Gaps[0].Requests)
	}
	assert.Empty(t, c.Notes)
}

func TestOrderOfLinesDoesNotMatter(t *testing.T) {
	t.Parallel()
	text := csvOf([]uint64{1, 2}, nil)
	other := csvOf([]uint64{1, 2}, func(_ string, _ uint64, id int, ms float64) (float64, bool) { return ms + float64(id), true })
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	first := lines[1] // policies are in the order of their first request
	rest := lines[2:]
	rng := rand.New(rand.NewPCG(3, 3))
	rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	shuffled := strings.Join(append([]string{lines[0], first}, rest...), "\n") + "\n"
	want := compared(t, read(t, "a.csv", text), read(t, "b.csv", other))
	assert.Equal(t, want, compared(t, read(t, "a.csv", shuffled), read(t, "b.csv", other)))
}

// If each of NetKV's transfers takes 10% longer, the gain falls from g to 1.1 (1 + g) - 1.
func TestGapIsWhatWasPutIn(t *testing.T) {
	t.Parallel()
	longer := csvOf([]uint64{1, 2}, func(p string, _ uint64, _ int, ms float64) (float64, bool) {
		if p != "rr" {
			ms *= 1.1
		}
		return ms, true
	})
	c := compared(t, read(t, "a.csv", csvOf([]uint64{1, 2}, nil)), read(t, "b.csv", longer))
	for _, r := range c.Gains {
		if r.Metric == results.MetricTransfer {
			a, b := r.Values[0].Value, r.Values[1].Value
			assert.InDelta(t, 1.1*(100+a)-100, b, 1e-9)
			assert.InDelta(t, b-a, r.Gaps[0].Value, 1e-9)
			assert.Less(t, *r.Gaps[0].CI95, *r.Values[0].CI95, "pairs tell more than each alone")
		}
	}
}

func TestMismatchesAreSaid(t *testing.T) {
	t.Parallel()
	two := []uint64{1, 2}
	for _, tt := range []struct {
		name, other string
		say         []string
		paired      bool
	}{
		{"seeds that only one has", csvOf([]uint64{2, 3}, nil), []string{"only A has 1; only B has 3", "up to 40 completed requests a policy"}, true},
		{"no request in common", csvOf([]uint64{8, 9}, nil), []string{"only A has 1, 2; only B has 8, 9", "no completed request is in all of them"}, false},
		{"requests that only one has", csvOf(two, func(_ string, _ uint64, id int, ms float64) (float64, bool) { return ms, id >= 5 }),
			[]string{"A: up to 10 completed requests a policy"}, true},
		{"policies that only one has", csvOf(two, nil) + "magic,1,0,5,5\n", []string{"B: not in all of them, and so left out: magic"}, true},
		{"columns that mean nothing here", strings.Replace(csvOf(two, nil), "transfer_ms\n", "transfer_ms,colour\n", 1), nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(tt.other, "colour") {
				tt.other = strings.ReplaceAll(tt.other, "\n", ",red\n")
				tt.other = strings.Replace(tt.other, "colour,red", "colour", 1)
				tt.say = []string{"B: columns that mean nothing here: colour"}
			}
			c := compared(t, read(t, "a.csv", csvOf(two, nil)), read(t, "b.csv", tt.other))
			for _, want := range tt.say {
				assert.Contains(t, strings.Join(c.Notes, "\n"), want)
			}
			for _, r := range c.Gains {
				assert.Equal(t, tt.paired, r.Paired)
				require.Len(t, r.Gaps, 1)
				require.NotNil(t, r.Gaps[0].CI95)
				assert.InDelta(t, r.Values[1].Value-r.Values[0].Value, r.Gaps[0].Value, 1e-9)
			}
		})
	}
}

func TestFailuresAreSaid(t *testing.T) {
	t.Parallel()
	text := "policy,seed,id,ttft_ms,transfer_ms,status\nrr,1,0,10,5,\nrr,1,1,,,failed\nrr,1,2,12,6,completed\n"
	c := compared(t, read(t, "a.csv", text), read(t, "b.csv", text))
	assert.Contains(t, strings.Join(c.Notes, "\n"), "B: rr did not complete 1 of 3 requests")
	assert.Equal(t, 2, c.Sources[0].Completed)
	assert.Empty(t, c.Gains, "one policy has no baseline")
	assert.InDelta(t, 11, c.Means[0].Values[0].Value, 1e-12)
}

func TestFigureThatOneLacksHasAReason(t *testing.T) {
	t.Parallel()
	a := read(t, "a.csv", "policy,seed,id,transfer_ms\nrr,1,0,5\n")
	b := read(t, "b.csv", "policy,seed,id,ttft_ms,transfer_ms\nrr,1,0,10,5\n")
	c := compared(t, b, a)
	assert.Equal(t, "source B has no completed request with this figure", c.Means[0].Reason)
	assert.Empty(t, c.Means[0].Values)
	assert.Empty(t, c.Means[1].Reason)
	assert.Nil(t, c.Means[1].Gaps[0].CI95, "one request has no interval")
}

func TestGainOverNothingSaysSo(t *testing.T) {
	t.Parallel()
	a := read(t, "a.csv", "policy,seed,id,transfer_ms\nrr,1,0,5\ncla,1,0,4\n")
	b := read(t, "b.csv", "policy,seed,id,transfer_ms\nrr,1,0,0\ncla,1,0,4\n")
	c := compared(t, a, b)
	require.Len(t, c.Gains, 2)
	assert.Equal(t, "source B has no gain, since the baseline's mean is 0", c.Gains[1].Reason)
	assert.Empty(t, c.Gains[1].Values)
	assert.Empty(t, c.Means[1].Reason, "the mean of rr is 0, and known")
}

func TestBadLinesAreNamed(t *testing.T) {
	t.Parallel()
	const head = "policy,seed,id,ttft_ms,transfer_ms,status\n"
	for _, tt := range []struct{ name, text, want string }{
		{"empty file", "", "x.csv: the file is empty"},
		{"header alone", head, "x.csv: no requests"},
		{"missing column", "policy,id,ttft_ms\n", "x.csv:1: no column seed"},
		{"no time at all", "policy,seed,id\n", "x.csv:1: neither ttft_ms nor transfer_ms"},
		{"column twice", "policy,seed,id,id,ttft_ms\n", "x.csv:1: column id is there twice"},
		{"too few fields", head + "rr,1,0,5,5,\nrr,1,1\n", "x.csv:3: 3 fields, the header has 6"},
		{"negative seed", head + "rr,-1,0,5,5,\n", `x.csv:2: seed "-1"`},
		{"fractional id", head + "rr,1,0.5,5,5,\n", `x.csv:2: id "0.5"`},
		{"time that is no number", head + "rr,1,0,soon,5,\n", `x.csv:2: ttft_ms "soon"`},
		{"NaN", head + "rr,1,0,5,NaN,\n", `x.csv:2: transfer_ms "NaN"`},
		{"endless time", head + "rr,1,0,Inf,5,\n", `x.csv:2: ttft_ms "Inf"`},
		{"unknown status", head + "rr,1,0,5,5,lost\n", `x.csv:2: status "lost": want completed, failed or incomplete`},
		{"completed without a time", head + "rr,1,0,,,\n", "x.csv:2: completed without a time"},
		{"no policy", head + ",1,0,5,5,\n", "x.csv:2: policy is empty"},
		{"request twice", head + "rr,1,0,5,5,\nrr,1,1,5,5,\nrr,1,0,6,6,\n", "x.csv:4: rr, seed 1, request 0 is in line 2 already"},
		{"open quote", head + "rr,1,0,5,5,\n\"rr,1,1,5,5,\n", "x.csv:3:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := readCSV(strings.NewReader(tt.text), "x.csv")
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestCompareFails(t *testing.T) {
	t.Parallel()
	a := read(t, "a.csv", "policy,seed,id,ttft_ms\nrr,1,0,5\n")
	b := read(t, "b.csv", "policy,seed,id,ttft_ms\ncla,1,0,5\n")
	_, err := Compare([]*Source{a})
	require.ErrorIs(t, err, errTooFew)
	_, err = Compare([]*Source{a, b})
	require.ErrorIs(t, err, errNoPolicy)
	assert.ErrorContains(t, err, "a.csv has rr; b.csv has cla")
	_, err = Compare([]*Source{a, a}, "magic")
	assert.ErrorContains(t, err, "magic")
}

func TestLoadNamesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "x.csv")
	require.NoError(t, os.WriteFile(file, []byte("policy,seed,id,ttft_ms\nrr,1,0,5\n"), 0o600))
	_, err := Load(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load(dir)
	require.ErrorIs(t, err, results.ErrUnfinished)
	_, err = Load(file + ":flow")
	require.ErrorContains(t, err, "a CSV file has no worlds")
	s, err := Load(file)
	require.NoError(t, err)
	assert.Equal(t, file, s.Label())
}
