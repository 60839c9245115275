package scenarios

import (
	"cmp"
	"math"
	"time"
)

// custom is the preset without figures.
const custom = "custom"

// preset is a named set of values and where they come from.
type preset[T any] struct {
	name   string
	values T
	source string
}

// presetNames lists the names of presets, followed by more.
func presetNames[T any](list []preset[T], more ...string) []string {
	var names []string
	for _, p := range list {
		names = append(names, p.name)
	}
	return append(names, more...)
}

// presetOf is the values of a name, the zero ones for an unknown name.
func presetOf[T any](list []preset[T], name string) (values T) {
	for _, p := range list {
		if p.name == name {
			return p.values
		}
	}
	return values
}

// modelPresets are the known models' KV geometry, the default first. They do not contain
// the number format or the GPUs of an instance: the user chooses these.
var modelPresets = []preset[Model]{
	{"llama-3-70b", Model{Layers: 80, KVHeads: 8, HeadDim: 128}, "config.json of Llama-3.1-70B"},
	{"llama-3-8b", Model{Layers: 32, KVHeads: 8, HeadDim: 128}, "config.json of Llama-3.1-8B"},
	{"qwen3-32b", Model{Layers: 64, KVHeads: 8, HeadDim: 128}, "config.json of Qwen3-32B"},
	{"qwen3-235b-a22b", Model{Layers: 94, KVHeads: 4, HeadDim: 128}, "config.json of Qwen3-235B-A22B"},
	{"mixtral-8x7b", Model{Layers: 32, KVHeads: 8, HeadDim: 128}, "config.json of Mixtral-8x7B"},
	{"deepseek-v3", Model{Layers: 61, LatentDim: 512 + 64},
		"config.json of DeepSeek-V3: latent attention, 512 latent + 64 rotary elements. Every tensor-parallel rank holds the whole vector; replication 1 moves it once, replication = tensorParallel once a rank"},
	{"gpt-oss-120b", Model{Layers: 36, KVHeads: 8, HeadDim: 64},
		"config.json of gpt-oss-120b, all layers kept (every second one is a sliding window of 128 tokens, which an engine may drop)"},
}

// modelNames are the valid values of Model.Preset.
func modelNames() []string { return presetNames(modelPresets, custom) }

func modelPreset(name string) Model {
	m := presetOf(modelPresets, name)
	m.Preset, m.KVDtype, m.Replication, m.TensorParallel = name, "fp16", 1, 4
	return m
}

// elementBytes are the sizes of kvDtype's formats. The first of two equal ones
// is the name that bytesPerElement alone gives.
var elementBytes = []preset[float64]{{name: "fp16", values: 2}, {name: "bf16", values: 2}, {name: "fp8", values: 1}, {name: "int4", values: 0.5}}

func bytesOf(dtype string) float64 { return presetOf(elementBytes, dtype) }

func dtypeOf(bytes float64) string {
	for _, e := range elementBytes {
		if e.values == bytes {
			return e.name
		}
	}
	return ""
}

// KVBytesPerToken is Eq. 1 of the NetKV paper for one token: 2 x layers x kvHeads x
// headDim x bytesPerElement, or layers x latentDim x bytesPerElement for latent
// attention, times Replication; a fraction of a byte rounds up. It counts the
// whole instance: each of its TensorParallel GPUs holds and sends a part.
func (m Model) KVBytesPerToken() Bytes {
	elements := 2 * float64(m.Layers) * float64(m.KVHeads) * float64(m.HeadDim)
	if m.LatentDim > 0 {
		elements = float64(m.Layers) * float64(m.LatentDim)
	}
	return Bytes(math.Ceil(elements * m.BytesPerElement * float64(m.Replication)))
}

// enginePresets are the compute models, the default first. All are
// Llama-3-70B, bf16, TP=4 on H100-class GPUs.
var enginePresets = []preset[Engine]{
	{
		"paper-fit",
		Engine{
			Prefill: PrefillEngine{Mode: "delay", PerTokenNs: 80_100},
			Decode:  DecodeEngine{Base: 12500 * time.Microsecond, PerSequence: 100 * time.Microsecond},
		},
		"inferred from the NetKV paper: TTFT - transfer = 977 ms in every cell of Table II and a mean prompt of 12035 tokens give 80.1 us a token; TBT gives 12.5 ms + about 0.1 ms a sequence",
	},
	{
		"h100-measured",
		Engine{
			Prefill: PrefillEngine{Mode: "queue", Base: 43 * time.Millisecond, PerTokenNs: 62_600, PerTokenSquaredNs: 1.3},
			Decode:  DecodeEngine{Base: 17700 * time.Microsecond, PerSequence: 115 * time.Microsecond, PerContextTokenNs: 180},
		},
		"fit to vLLM on 4 x H100 (tugot17/tokenomics-from-first-principles): prefill within 6% up to 20K tokens, use h100-roofline beyond; context cost is the upper end of the measured spread (25..180 ns)",
	},
	{
		"h100-roofline",
		Engine{
			Prefill: PrefillEngine{Mode: "queue", Base: 30 * time.Millisecond, PerTokenNs: 76_900, PerTokenSquaredNs: 0.74},
			Decode:  DecodeEngine{Base: 12500 * time.Microsecond, PerContextTokenNs: 24.5},
		},
		"roofline at 989.5 TFLOP/s with 45% utilization and 3.35 TB/s: 136.9 GFLOP a token + 1.31 MFLOP a squared token; base 30 ms is the middle of 20..40",
	},
}

// engineNames are the valid values of Engine.Compute.
func engineNames() []string { return presetNames(enginePresets, custom) }

func enginePreset(name string) Engine {
	e := presetOf(enginePresets, name)
	e.Compute, e.Prefill.Mode, e.BlockTokens = name, cmp.Or(e.Prefill.Mode, "queue"), 512
	e.Decode.MaxBatch, e.Decode.Memory, e.Decode.MinFree = 64, 100*giga, 1*giga
	return e
}

// workloadProfiles are sets of lengths and prefix sharing, the default first. The NetKV paper names its
// profiles without their distributions; the figures here are this project's.
var workloadProfiles = []preset[Synthetic]{
	{"rag", lengths(8192, 200), "ours: with 8 + 8 instances a mean near 8K tokens gives its Table II's transfer times"},
	{"chatbot", lengths(4200, 256), "ours: the NetKV paper's chatbot TTFT at 80.1 us a token"},
	{"long-context", lengths(47000, 300), "ours: the NetKV paper's long-context TTFT at 80.1 us a token"},
}

// lengths is a profile by the mean tokens of prompt and output.
func lengths(prompt, output float64) Synthetic {
	const longest = 131072 // tokens: the model's context
	return Synthetic{
		Prompt: LengthTokens{Mean: prompt, Sigma: 0.6, Min: 16, Max: longest},
		Output: LengthTokens{Mean: output, Sigma: 0.6, Min: 1, Max: 4096},
		Prefix: Prefix{Share: 0.5, Groups: 200, Fraction: 0.5},
	}
}

// profileNames are the valid values of Synthetic.Profile.
func profileNames() []string { return presetNames(workloadProfiles) }

func profile(name string) Synthetic {
	s := presetOf(workloadProfiles, name)
	s.Profile, s.Requests, s.Rate, s.Arrivals = name, 200, 4, "poisson"
	return s
}
