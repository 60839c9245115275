package packetworld

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/scenarios"
)

// Without its lab the paths of acknowledgements stay unknown, and the trial keeps its records.
func TestTheWayBackOfALabThatIsGoneIsUnknown(t *testing.T) {
	t.Parallel()
	s, err := scenarios.Load("quickstart")
	require.NoError(t, err)
	c, err := trials.New(s)
	require.NoError(t, err)
	plan := c.Plan
	var said bytes.Buffer
	w := &World{cluster: c, lab: &lab.Lab{Cluster: c, Fabric: &kernel.Fabric{}}, opt: Options{
		Note: func(format string, args ...any) { fmt.Fprintf(&said, format, args...) },
	}}
	records := []results.Record{
		{Prefill: plan.Nodes[plan.Prefill[0]].Name, Decode: plan.Nodes[plan.Decode[0]].Name, Streams: []results.StreamRecord{
			{SourcePort: 10_000, Bytes: 5}, {SourcePort: 10_001}, {Bytes: 5},
		}},
		{Prefill: "nobody", Decode: "d0", Streams: []results.StreamRecord{{SourcePort: 10_000, Bytes: 5}}},
		{Status: results.Failed},
	}
	w.nameBackPaths(records)
	for _, r := range records {
		for _, st := range r.Streams {
			assert.Nil(t, st.BackSlot)
			assert.Nil(t, st.BackPath)
		}
	}
	assert.Contains(t, said.String(), "the path of the acknowledgements of 2 streams is not known: ")

	said.Reset()
	w.nameBackPaths(records[2:])
	assert.Empty(t, said.String(), "nothing was to be found")
}
