package scenarios

import (
	"math"
	"time"
)

// custom is the preset without figures.
const custom = "custom"

// ModelPreset is a known model's KV geometry and its source.
type ModelPreset struct {
	Name   string
	Model  Model // Layers, KVHeads, HeadDim or LatentDim
	Source string
}

// ModelPresets lists the models by name, the default first. They do not contain
// the number format or the GPUs of an instance: the user chooses these.
func ModelPresets() []ModelPreset {
	return []ModelPreset{
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
}

// ModelNames lists the valid values of Model.Preset.
func ModelNames() []string {
	var names []string
	for _, p := range ModelPresets() {
		names = append(names, p.Name)
	}
	return append(names, custom)
}

func modelPreset(name string) Model {
	m := Model{Preset: name, KVDtype: "fp16", Replication: 1, TensorParallel: 4}
	for _, p := range ModelPresets() {
		if p.Name == name {
			m.Layers, m.KVHeads, m.HeadDim, m.LatentDim = p.Model.Layers, p.Model.KVHeads, p.Model.HeadDim, p.Model.LatentDim
		}
	}
	return m
}

// elementBytes are the sizes of kvDtype's formats. The first of two equal ones
// is the name that bytesPerElement alone gives.
var elementBytes = []struct {
	dtype string
	bytes float64
}{{"fp16", 2}, {"bf16", 2}, {"fp8", 1}, {"int4", 0.5}}

func bytesOf(dtype string) float64 {
	for _, e := range elementBytes {
		if e.dtype == dtype {
			return e.bytes
		}
	}
	return 0
}

func dtypeOf(bytes float64) string {
	for _, e := range elementBytes {
		if e.bytes == bytes {
			return e.dtype
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

// EnginePreset is a set of compute times and where they come from.
type EnginePreset struct {
	Name    string
	Prefill PrefillEngine
	Decode  DecodeEngine // the times only
	Source  string
}

// EnginePresets lists the compute models, the default first. All are
// Llama-3-70B, bf16, TP=4 on H100-class GPUs.
func EnginePresets() []EnginePreset {
	return []EnginePreset{
		{
			"paper-fit",
			PrefillEngine{Mode: "delay", PerTokenNs: 80_100},
			DecodeEngine{Base: 12500 * time.Microsecond, PerSequence: 100 * time.Microsecond},
			"inferred from the NetKV paper: TTFT - transfer = 977 ms in every cell of Table II and a mean prompt of 12035 tokens give 80.1 us a token; TBT gives 12.5 ms + about 0.1 ms a sequence",
		},
		{
			"h100-measured",
			PrefillEngine{Mode: "queue", Base: 43 * time.Millisecond, PerTokenNs: 62_600, PerTokenSquaredNs: 1.3},
			DecodeEngine{Base: 17700 * time.Microsecond, PerSequence: 115 * time.Microsecond, PerContextTokenNs: 180},
			"fit to vLLM on 4 x H100 (tugot17/tokenomics-from-first-principles): prefill within 6% up to 20K tokens, use h100-roofline beyond; context cost is the upper end of the measured spread (25..180 ns)",
		},
		{
			"h100-roofline",
			PrefillEngine{Mode: "queue", Base: 30 * time.Millisecond, PerTokenNs: 76_900, PerTokenSquaredNs: 0.74},
			DecodeEngine{Base: 12500 * time.Microsecond, PerContextTokenNs: 24.5},
			"roofline at 989.5 TFLOP/s with 45% utilization and 3.35 TB/s: 136.9 GFLOP a token + 1.31 MFLOP a squared token; base 30 ms is the middle of 20..40",
		},
	}
}

// EngineNames lists the valid values of Engine.Compute.
func EngineNames() []string {
	var names []string
	for _, p := range EnginePresets() {
		names = append(names, p.Name)
	}
	return append(names, custom)
}

func enginePreset(name string) Engine {
	e := Engine{Compute: name, Prefill: PrefillEngine{Mode: "queue"}, BlockTokens: 512}
	for _, p := range EnginePresets() {
		if p.Name == name {
			e.Prefill, e.Decode = p.Prefill, p.Decode
		}
	}
	e.Decode.MaxBatch, e.Decode.Memory, e.Decode.MinFree = 64, 100*giga, 1*giga
	return e
}

// WorkloadProfile is a set of lengths and prefix sharing.
type WorkloadProfile struct {
	Name           string
	Prompt, Output LengthTokens
	Prefix         Prefix
	Source         string
}

// WorkloadProfiles lists the profiles, the default first. The NetKV paper names its
// profiles without their distributions; the figures here are this project's.
func WorkloadProfiles() []WorkloadProfile {
	const longest = 131072 // tokens: the model's context
	prefix := Prefix{Share: 0.5, Groups: 200, Fraction: 0.5}
	output := func(mean float64) LengthTokens { return LengthTokens{Mean: mean, Sigma: 0.6, Min: 1, Max: 4096} }
	prompt := func(mean float64) LengthTokens { return LengthTokens{Mean: mean, Sigma: 0.6, Min: 16, Max: longest} }
	return []WorkloadProfile{
		{"rag", prompt(8192), output(200), prefix, "ours: with 8 + 8 instances a mean near 8K tokens gives its Table II's transfer times"},
		{"chatbot", prompt(4200), output(256), prefix, "ours: the NetKV paper's chatbot TTFT at 80.1 us a token"},
		{"long-context", prompt(47000), output(300), prefix, "ours: the NetKV paper's long-context TTFT at 80.1 us a token"},
	}
}

// ProfileNames lists the valid values of Synthetic.Profile.
func ProfileNames() []string {
	var names []string
	for _, p := range WorkloadProfiles() {
		names = append(names, p.Name)
	}
	return names
}

func profile(name string) Synthetic {
	s := Synthetic{Profile: name, Requests: 200, Rate: 4, Arrivals: "poisson"}
	for _, p := range WorkloadProfiles() {
		if p.Name == name {
			s.Prompt, s.Output, s.Prefix = p.Prompt, p.Output, p.Prefix
		}
	}
	return s
}
