package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
)

// tree is the 16-host tree of the reference cases, as a scenario of explicit flows.
const tree = `name: %s
topology:
  pods: 4
  racksPerPod: 2
  serversPerRack: 2
  gpusPerServer: 4
  nicRate: 100Gbps
  aggsPerPod: 2
  coresPerAgg: 2
  oversubscription: {rack: 2, pod: 4}
  buffers: {switchEmulated: 1MB}
workload:
  kind: flows
  flows: {file: flows.jsonl}
transfer: {streams: 1, congestionControl: %s, timeout: 2m}
scale: {rate: 1000}
`

// TestPacketsMeetTheFluidModelAtTheMedian replays the max-min reference cases, paths as
// given, and compares each completion time with the fluid one. TCP is no fluid: the
// spread is printed, and only the median is held to, where the load is tiny or light. Under
// moderate and heavy load it is not met: docs/fidelity.md has what they gave.
func TestPacketsMeetTheFluidModelAtTheMedian(t *testing.T) {
	cases := []string{"tiny"}
	if os.Getenv("NETKVLAB_LONG") != "" { // six minutes more
		cases = append(cases, "light", "moderate", "heavy")
	}
	for _, name := range cases {
		for _, cc := range []string{"cubic", "reno"} {
			t.Run(name+" "+cc, func(t *testing.T) {
				lab := "e2e-maxmin-" + name
				absent(t, lab)
				dir := t.TempDir()
				fct := reference(t, name, filepath.Join(dir, "flows.jsonl"))
				file := filepath.Join(dir, "maxmin.yaml")
				require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, tree, lab, cc), 0o600))
				out := filepath.Join(dir, "run")
				mustRun(t, "up", file, "--worlds", "packet", "--out", out)
				rows := records(t, out)
				require.Len(t, rows, len(fct))
				ratios := make([]float64, len(rows))
				for i, r := range rows {
					require.Equal(t, results.Completed, r.Status, r.Reason)
					ratios[i] = r.TransferMS / 1000 / (fct[i] * frameShare)
				}
				slices.Sort(ratios)
				at := func(q int) float64 { return results.Percentile(ratios, float64(q)) }
				f := summary(t, out).Fidelity
				t.Logf("packet / fluid of %d flows: median %.3f; 1 %% %.3f, 10 %% %.3f, 90 %% %.3f, 99 %% %.3f; %s %v",
					len(ratios), at(50), at(1), at(10), at(90), at(99), f.Verdict, f.Reasons)
				if name == "tiny" || name == "light" {
					assert.InDelta(t, 1, at(50), 0.03)
				}
			})
		}
	}
}

// place finds the parts of the reference's names: h211 is the second host of the second
// rack of the third pod, t21 its rack's switch, a20 a switch of the pod, c01 of the core.
var place = regexp.MustCompile(`^([htac])(\d)(\d)(\d?)$`)

// reference writes a case of flowsim/testdata as flows and returns its completion times.
func reference(t *testing.T, name, file string) (fct []float64) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "flowsim", "testdata", name+".json"))
	require.NoError(t, err)
	var ref struct {
		Flows []struct {
			Start float64  `json:"start_s"`
			Bytes int64    `json:"bytes"`
			Path  []string `json:"path"`
			FCT   float64  `json:"fct_s"`
		} `json:"flows"`
	}
	require.NoError(t, json.Unmarshal(data, &ref))
	node := func(name string) string {
		m := place.FindStringSubmatch(name)
		require.NotNil(t, m, name)
		switch m[1] {
		case "h":
			return fmt.Sprintf("i%d", 4*int(m[2][0]-'0')+2*int(m[3][0]-'0')+int(m[4][0]-'0'))
		case "t":
			return fmt.Sprintf("tor%s-%s", m[2], m[3])
		case "a":
			return fmt.Sprintf("agg%s-%s", m[2], m[3])
		}
		return fmt.Sprintf("core%s-%s", m[2], m[3])
	}
	var lines strings.Builder
	for _, f := range ref.Flows {
		var nodes []string
		for i, hop := range f.Path {
			from, to, _ := strings.Cut(hop, ">")
			if i == 0 {
				nodes = append(nodes, node(from))
			}
			nodes = append(nodes, node(to))
		}
		last := len(nodes) - 1
		line, err := json.Marshal(map[string]any{"start_s": f.Start, "from": nodes[0], "to": nodes[last], "bytes": f.Bytes, "via": nodes[1:last]})
		require.NoError(t, err)
		fmt.Fprintf(&lines, "%s\n", line)
		fct = append(fct, f.FCT)
	}
	require.NoError(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	return fct
}
