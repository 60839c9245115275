package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFaultsNameFileLineKeyAndWayOut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ fact, yaml, want string }{
		{"an unknown key is told its nearest", "topology:\n  podz: 2", `s.yaml:2: topology: unknown key "podz"; did you mean "pods"? (valid: pods, racksPerPod`},
		{"an unknown section too", "topologie: {}", `s.yaml:1: unknown key "topologie"; did you mean "topology"?`},
		{"a far-off key gets only the list", "zzzzzzzzzz: 1", `s.yaml:1: unknown key "zzzzzzzzzz" (valid: name,`},
		{"a key twice", "topology:\n  pods: 1\n  pods: 2", "s.yaml:3: topology.pods: given twice, first on line 2; keep one"},
		{"out of range", "topology:\n  pods: 0", "s.yaml:2: topology.pods: must be 1..64, got 0"},
		{"out of range the other way", "topology: {pods: 65}", "s.yaml:1: topology.pods: must be 1..64, got 65"},
		{"a rate out of range", "topology: {nicRate: 1kbps}", "topology.nicRate: must be 1Mbps..10Tbps, got 1kbps"},
		{"a share out of range", "background: {utilization: {tier2: 1.5}}", "background.utilization.tier2: must be 0..0.95, got 1.5"},
		{"auto or a range", "scale: {rate: 0}", "scale.rate: must be auto or 1..100000, got 0"},
		{"time scale", "scale: {time: 0.01}", "scale.time: must be 0.1..100, got 0.01"},
		{"text for a number", "topology: {pods: two}", "topology.pods: must be a whole number in plain decimal, got two"},
		{"quoted number", `topology: {pods: "2"}`, `topology.pods: must be a whole number, got the quoted text "2"; drop the quotes`},
		{"octal-looking number", "topology: {pods: 010}", "topology.pods: must be a whole number in plain decimal, got 010"},
		{"hexadecimal", "topology: {pods: 0x10}", "topology.pods: must be a whole number in plain decimal, got 0x10"},
		{"fraction for a whole number", "topology: {pods: 1.5}", "topology.pods: must be a whole number in plain decimal, got 1.5"},
		{"more than 64 bits", "topology: {pods: 99999999999999999999}", "topology.pods: must be a whole number of at most 64 bits"},
		{"not a number", "oracle: {noise: .nan}", "oracle.noise: must be a plain number, got .nan"},
		{"infinite", "oracle: {noise: .inf}", "oracle.noise: must be a plain number, got .inf"},
		{"list for a scalar", "topology: {pods: [1]}", "topology.pods: must be a whole number, got a list"},
		{"scalar for a section", "topology: 4", `topology: must be a mapping of keys (pods, racksPerPod,`},
		{"list for a section", "slo: [1]", "slo: must be a mapping of keys (ttft, tbt), got a list"},
		{"scalar for a list", "seeds: 1", `seeds: must be a list, such as [a, b], got "1"`},
		{"no value", "topology:\n  pods:", "s.yaml:2: topology.pods: has no value; give a whole number or leave the key out"},
		{"yes is no flag", "transfer: {integrity: yes}", "transfer.integrity: must be true or false, got yes"},
		{"unknown word", "transfer: {paths: randm}", `transfer.paths: unknown value "randm"; did you mean "random"? (valid: random, sticky, fresh)`},
		{"bits or bytes", "topology: {nicRate: 25gbps}", "topology.nicRate: unit \"gbps\" is ambiguous: tc reads it as bytes; write 25Gbps (bits) or 25GB/s (bytes), got 25gbps"},
		{"bare rate", "topology: {nicRate: 25e9}", "topology.nicRate: exponents are not read and the unit is missing"},
		{"rate not a number", "topology: {nicRate: NaN}", "topology.nicRate: not a finite number"},
		{"bare time", "slo: {ttft: 4}", "slo.ttft: a time needs a unit; write it like 1.5s, 100ms or 8us, got 4"},
		{"bare arrival rate", "workload: {synthetic: {rate: 4}}", "workload.synthetic.rate: an arrival rate needs a unit; write it like 4/s, got 4"},
		{"control character", `description: "a\x01b"`, "description: holds the character U+0001, which a text may not"},
		{"terminal escape in a value", `topology: {pods: "\x1b[2J"}`, "topology.pods: must be a whole number, got the quoted text \"\uFFFD[2J\""},
		{"long value", "topology: {nicRate: " + strings.Repeat("9", 64) + "}", "needs a unit; write it like 25Gbps (bits) or 3.125GB/s (bytes), got " + strings.Repeat("9", 60) + "..."},
		{"merge key", "topology: {<<: {pods: 1}}", "topology: merge keys (<<) are not read; write the keys out"},
		{"complex key", "topology: {[a]: 1}", "topology: a key must be a plain word, got a list"},

		{"GPUs no multiple of TP", "model: {tensorParallel: 3}", "topology.gpusPerServer: must be a multiple of model.tensorParallel (3), got 8"},
		{"TP above the server", "model: {tensorParallel: 16}", "topology.gpusPerServer: must be a multiple of model.tensorParallel (16), got 8"},
		{"more NICs than TP", "topology: {nicsPerInstance: 5}", "topology.nicsPerInstance: must be 1..4 (one a GPU of the instance: model.tensorParallel), got 5"},
		{"too many NICs a rack", "topology: {serversPerRack: 64, nicsPerInstance: 4}", "topology.serversPerRack: gives a rack 512 NICs (128 instances x 4), at most 250"},
		{"too many instances", "topology: {pods: 64, racksPerPod: 64, serversPerRack: 1}", "topology.pods: gives a cluster of 8192 instances, at most 4096"},
		{"no decode", "placement: {pattern: [prefill]}", "placement: leaves no decode instance among the 16 of the cluster; a request needs one of each"},
		{"pattern longer than the racks", "topology: {pods: 1}\nplacement: {pattern: [prefill, prefill, decode]}", "placement: leaves no decode instance"},
		{"no prefill", "placement: {decode: [0, 1]}", "s.yaml:1: placement: leaves no prefill instance"},
		{"index out of range", "placement: {prefill: [0], decode: [16]}", "placement.decode[0]: must be 0..15 (the cluster has 16 instances), got 16"},
		{"negative index", "placement: {prefill: [-1], decode: [1]}", "placement.prefill[0]: must be 0..4095, got -1"},
		{"instance twice", "placement:\n  prefill: [0, 1]\n  decode: [1]", "s.yaml:3: placement.decode[0]: instance 1 is listed already, at placement.prefill[1]"},
		{"both ways to place", "placement: {unit: rack, decode: [1]}", "placement: gives both unit or pattern and lists of instances"},
		{"empty list", "placement: {prefill: [], decode: [1]}", "placement.prefill: must have 1..4096 items, got 0"},
		{"marks of fair queues", "topology:\n  buffers: {queueing: fair}\ntransfer: {congestionControl: dctcp}", "s.yaml:2: topology.buffers.queueing: is fair, where queues do not mark"},
		{"equal DSCP", "transfer: {dscp: 8}", "background.dscp: is 8 like transfer.dscp"},
		{"rates that disagree", "topology:\n  oversubscription: {rack: 2}\n  linkRates: {rackUplink: 40Gbps}", "s.yaml:3: topology.linkRates.rackUplink: is 40Gbps, but topology.oversubscription.rack = 2 makes it 50Gbps (200Gbps of NICs over 2 links); drop one of the two"},
		{"rates beyond oversubscription", "topology: {linkRates: {coreLink: 1Gbps}}", "topology.linkRates.coreLink: is 1Gbps, which makes the oversubscription 100 (400Gbps of NICs over 4 links); it must be 0.125..64"},
		{"oversubscription beyond rates", "topology: {nicRate: 1Mbps, oversubscription: {pod: 1}}", "topology.oversubscription.rack: is 2, which makes a link 500kbps"},
		{"latent and heads", "model: {latentDim: 576, kvHeads: 8}", "model.latentDim: excludes kvHeads and headDim"},
		{"no heads", "model: {preset: custom, layers: 4, headDim: 128}", "model.kvHeads: kvHeads and headDim must be at least 1 (or give latentDim), got 0 and 128"},
		{"custom without layers", "model: {preset: custom, kvHeads: 4, headDim: 128}", "model.layers: must be 1..1000, got 0"},
		{"huge head", "model: {headDim: 100000}", "model.headDim: must be 0..4096, got 100000"},
		{"element size against dtype", "model: {kvDtype: fp8, bytesPerElement: 2}", "model.bytesPerElement: is 2, but kvDtype fp8 has 1; drop one of the two"},
		{"unknown model", "model: {preset: llama3-70b}", `model.preset: unknown value "llama3-70b"; did you mean "llama-3-70b"?`},
		{"free more than there is", "engine: {decode: {minFree: 100GB}}", "engine.decode.minFree: must be below engine.decode.memory (100GB), got 100GB"},
		{"decoding in no time", "engine: {compute: custom}", "engine.decode.base: base and perSequence are both 0s"},
		{"prompt larger than memory", "engine: {decode: {memory: 2GB}}", "engine.decode.memory: leaves 1GB for KV caches, but a prompt of mean length (8192 tokens) needs 2.68GB"},
		{"two workloads", "workload:\n  kind: synthetic\n  synthetic: {}\n  trace: {file: a}", "s.yaml:4: workload.trace: does not go with kind synthetic; drop it, or set workload.kind: trace"},
		{"trace without file", "workload: {kind: trace}", "workload.trace.file: must name a trace"},
		{"trace with other blocks", "workload: {trace: {file: a}}\nengine: {blockTokens: 256}", "s.yaml:2: engine.blockTokens: must be 512 with a trace"},
		{"burstiness of poisson", "workload: {synthetic: {burstiness: 2}}", "workload.synthetic.burstiness: needs arrivals: bursty, got poisson"},
		{"min above max", "workload: {synthetic: {prompt: {min: 10, max: 5}}}", "workload.synthetic.prompt.min: must be at most max (5), got 10"},
		{"mean above max", "workload: {synthetic: {prompt: {mean: 900, max: 500}}}", "workload.synthetic.prompt.mean: must be min..max (16..500), got 900"},
		{"sharing without groups", "workload: {synthetic: {prefix: {groups: 0}}}", "workload.synthetic.prefix.groups: must be at least 1 when share is above 0, got 0"},
		{"no flows", "workload: {kind: flows}", "workload.flows: has no flow; give a list or a file"},
		{"flow to nowhere", "workload: {flows: {list: [{from: i0, to: d3, bytes: 1GB}]}}", `workload.flows.list[0].to: unknown instance "d3"; this cluster has i0..i15 (idle)`},
		{"flow to itself", "workload: {flows: {list: [{from: i0, to: i0, bytes: 1GB}]}}", "workload.flows.list[0].to: is i0 like from"},
		{"flow without bytes", "workload: {flows: {list: [{from: i0, to: i1}]}}", "workload.flows.list[0].bytes: must be 1B..1000TB, got 0B"},
		{"flow through no switch", "workload: {flows: {list: [{from: i0, to: i1, bytes: 1B, via: [x]}]}}", `workload.flows.list[0].via: "x" is no switch`},
		{"no policy", "policies: []", "policies: must name at least one policy (valid: random, rr"},
		{"unknown policy", "policies: [rr, netkv]", `policies[1].name: unknown value "netkv" (valid: random`},
		{"policy twice", "policies: [rr, rr]", `policies[1]: "rr" is listed already, at policies[0]; give one of them a label`},
		{"weights of rr", "policies: [{name: rr, cacheWeight: 1}]", "policies[0]: rr takes no weights; only cla and cla* do"},
		{"cla* untuned", "policies: [cla*]", "policies[0]: cla* needs the weights that netkvlab tune finds; give cacheWeight and loadWeight"},
		{"cla by nothing", "policies: [{name: cla, cacheWeight: 0, loadWeight: 0}]", "policies[0]: cla with both weights 0 chooses by nothing"},
		{"no tenant", "workload: {tenants: 0}", "workload.tenants: must be 1..64, got 0"},
		{"too many tenants", "workload:\n  tenants: 65", "s.yaml:2: workload.tenants: must be 1..64, got 65"},
		{"tenants of flows", "workload: {tenants: 2, flows: {list: [{from: i0, to: i1, bytes: 1B}]}}", "workload.tenants: must be 1 with workload flows, which have no scheduler, got 2"},
		{"flows twice", "workload: {flows: {file: f.jsonl, list: [{from: i0, to: i1, bytes: 1B}]}}", "workload.flows.file: does not go with a list"},
		{"odd label", "policies: [{name: rr, label: a b}]", `policies[0].label: must be 1..40 of letters`},
		{"no seed", "seeds: []", "seeds: must have 1..1000 items, got 0"},
		{"seed twice", "seeds: [1, 2, 1]", "seeds[2]: seed 1 is listed already, at seeds[0]"},
		{"negative seed", "seeds: [-1]", "seeds[0]: must be a whole number from 0 to 18446744073709551615, got -1"},
		{"a pod nearer than its racks", "topology: {latency: {tier1: 1ms, tier2: 500us}}", "topology.latency.tier2: must not be below tier1 (1ms), through whose links its paths go, got 500µs"},
		{"a cluster nearer than its pods", "topology: {latency: {tier2: 20us}}", "topology.latency.tier3: must not be below tier2 (20µs)"},
		{"congestion control as a path", "transfer: {congestionControl: ../x}", "transfer.congestionControl: must be a kernel's name of a congestion control"},
	} {
		t.Run(test.fact, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("s.yaml", []byte(test.yaml))
			require.ErrorContains(t, err, test.want)
			require.Len(t, faultsOf(err), 1, "one fault is reported once: %v", err)
			var fault *Error
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, "s.yaml", fault.File)
			assert.Positive(t, fault.Line)
		})
	}
}

// faultsOf returns the parts of a joined error.
func faultsOf(err error) []*Error {
	var list []*Error
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the join itself, not what it holds
		for _, e := range joined.Unwrap() {
			var fault *Error
			if errors.As(e, &fault) {
				list = append(list, fault)
			}
		}
	}
	return list
}

func TestFilesThatAreNoScenario(t *testing.T) {
	t.Parallel()
	for fact, test := range map[string]struct{ data, want string }{
		"empty":             {"", "s.yaml:1: is empty"},
		"only blanks":       {" \n\n", "s.yaml:1: is empty"},
		"only comments":     {"# nothing\n", "s.yaml:1: is empty"},
		"null":              {"null\n", "s.yaml:1: is empty"},
		"a list":            {"- a\n", "s.yaml:1: must be a mapping of keys"},
		"a word":            {"hello\n", `s.yaml:1: must be a mapping of keys`},
		"two documents":     {"name: a\n---\nname: b\n", "holds a second YAML document"},
		"tab indentation":   {"topology:\n\tpods: 1\n", "s.yaml:2: not YAML: a line is indented with a tab; YAML wants spaces"},
		"open bracket":      {"seeds: [1, 2\n", "not YAML:"},
		"unknown anchor":    {"seeds: *x\n", "not YAML: unknown anchor"},
		"UTF-16":            {"\xff\xfen\x00", "s.yaml: is not UTF-8 text"},
		"binary":            {"\x00\x01\x02", "s.yaml:1: not YAML"},
		"huge":              {strings.Repeat("#", maxFile+1), "is larger than"},
		"bad second half":   {"name: a\n---\n[", "not YAML"},
		"yaml error at top": {"a: b: c", "s.yaml:1: not YAML: mapping values are not allowed"},
	} {
		_, err := Parse("s.yaml", []byte(test.data))
		require.ErrorContains(t, err, test.want, fact)
	}
}

func TestByteOrderMarkAndCarriageReturnsAreRead(t *testing.T) {
	t.Parallel()
	s, err := Parse("s.yaml", []byte("\xef\xbb\xbfname: a\r\ntopology:\r\n  pods: 2\r\n"))
	require.NoError(t, err)
	assert.Equal(t, 2, s.Topology.Pods)
}

func TestAllFaultsAreReportedInOrderOfLines(t *testing.T) {
	t.Parallel()
	_, err := Parse("s.yaml", []byte("slo: {ttft: 4}\nseeds: [1, 1]\ntopology:\n  pods: 0\n  podz: 1\nname: UPPER\n"))
	var lines []int
	for _, fault := range faultsOf(err) {
		lines = append(lines, fault.Line)
	}
	assert.Equal(t, []int{1, 2, 4, 5, 6}, lines)
}

func TestAFileFullOfFaultsIsCutShort(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	_, err := Parse("s.yaml", []byte(b.String()))
	require.ErrorContains(t, err, "s.yaml:1: unknown key")
	require.ErrorContains(t, err, "and 4900 more")
	assert.Len(t, faultsOf(err), maxErrors+1)
}

func TestNamesAreSafeOrRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	valid := []string{"host", "default", "all", "lo", "a", "yes", `"010"`, "0", "a-b", strings.Repeat("x", 40)}
	for _, name := range valid {
		if name == "0" {
			name = `"0"`
		}
		s, err := Parse("s.yaml", []byte("\nname: "+name))
		require.NoError(t, err, name)
		assert.Equal(t, strings.Trim(name, `"`), s.Name)
		requireRoundTrip(t, s)
	}
	for _, name := range []string{"..", "-d", "a/b", "é", `""`, "010", "A", "a_b", "a.b", "a-", "true", "~", "[a]", strings.Repeat("x", 41), strings.Repeat("x", 300), `"a\n"`} {
		_, err := Parse("s.yaml", []byte("\nname: "+name))
		require.ErrorContains(t, err, "s.yaml:2: name: ", name)
	}
}

func TestTheNameDefaultsToTheFilesBaseName(t *testing.T) {
	t.Parallel()
	s, err := Parse("some/where/my-lab.yaml", []byte("seeds: [1]"))
	require.NoError(t, err)
	assert.Equal(t, "my-lab", s.Name)
	_, err = Parse("My Lab.yaml", []byte("\nseeds: [1]"))
	require.ErrorContains(t, err, `My Lab.yaml:2: name: is missing, and the file's name "My Lab" is none; give 1..40 of a-z`)
}

func TestAliasesAreReadAndBombsDefused(t *testing.T) {
	t.Parallel()
	s, err := Parse("s.yaml", []byte("placement: {prefill: &a [0, 1], decode: [2]}\nworkload: {synthetic: {prompt: &l {mean: 500, max: 900}, output: *l}}"))
	require.NoError(t, err)
	assert.Equal(t, s.Workload.Synthetic.Prompt.Max, s.Workload.Synthetic.Output.Max)

	var b strings.Builder
	b.WriteString("policies:\n  - &a [x, x, x, x, x, x, x, x, x]\n")
	for i := range 60 {
		fmt.Fprintf(&b, "  - &a%d [*a, *a, *a, *a, *a, *a, *a, *a]\n", i)
	}
	_, err = Parse("s.yaml", []byte(b.String()))
	require.Error(t, err)

	flow := "{from: i0, to: i4, bytes: 1B, via: [tor0-0, agg0-0, core0-0, agg1-0, tor1-0]}" // 11 values, 10000 times
	bomb := "workload: {flows: {list: [&f " + flow + strings.Repeat(", *f", 9_999) + "]}}"
	s, err = Parse("s.yaml", []byte(bomb))
	if err != nil {
		require.ErrorContains(t, err, "more than 200000 values")
	} else {
		require.Len(t, s.Workload.Flows.List, 10_000)
	}
}
