package flowsim_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/flowsim"
)

// reference is a file of testdata: see testdata/README.md.
type reference struct {
	Links map[string]float64 `json:"links_gbps"`
	Flows []struct {
		ID    uint64   `json:"id"`
		Start float64  `json:"start_s"`
		Bytes float64  `json:"bytes"`
		Path  []string `json:"path"`
		FCT   float64  `json:"fct_s"`
	} `json:"flows"`
}

func mustReference(tb testing.TB, name string) reference {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(tb, err)
	var ref reference
	require.NoError(tb, json.Unmarshal(b, &ref))
	return ref
}

// network returns the capacities and the place of each link, sorted by name.
func (r reference) network() ([]float64, map[string]flowsim.LinkIndex) {
	names := slices.Sorted(maps.Keys(r.Links))
	capacities := make([]float64, len(names))
	place := map[string]flowsim.LinkIndex{}
	for i, name := range names {
		capacities[i], place[name] = r.Links[name]*1e9/8, flowsim.LinkIndex(i)
	}
	return capacities, place
}

func TestEveryCompletionTimeIsSimGrids(t *testing.T) {
	t.Parallel()
	for name, flows := range map[string]int{"tiny": 12, "light": 60, "moderate": 400, "heavy": 400} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := mustReference(t, name)
			require.Len(t, ref.Flows, flows)
			capacities, place := ref.network()
			n, err := flowsim.New(capacities, flowsim.Options{})
			require.NoError(t, err)
			took := map[uint64]float64{}
			collect := func(done []flowsim.Completion, err error) {
				require.NoError(t, err)
				for _, c := range done {
					took[c.ID] = c.At.Sub(c.Started)
				}
			}
			for _, f := range ref.Flows {
				flow := flowsim.Flow{ID: f.ID, Bytes: f.Bytes}
				for _, l := range f.Path {
					flow.Path = append(flow.Path, place[l])
				}
				collect(n.Advance(flowsim.Seconds(f.Start)))
				require.NoError(t, n.Start(flowsim.Seconds(f.Start), flow))
			}
			for next, ok := n.Next(); ok; next, ok = n.Next() {
				collect(n.Advance(next))
			}
			for _, f := range ref.Flows {
				assert.InEpsilon(t, f.FCT, took[f.ID], 1e-6, "flow %d", f.ID)
			}
		})
	}
}
