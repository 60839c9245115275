package workload

import (
	"fmt"
	"math"

	"github.com/netkvlab/netkvlab/scenarios"
)

// The scenarios package has validated what it loaded. These checks are for scenarios built in
// code: a wrong value gives an error, not an endless loop or a panic.

// field is one number and the range it must lie in.
type field struct {
	name     string
	value    float64
	min, max float64
}

// checkFields reports the first value outside its range; NaN is outside any.
func checkFields(fields []field) error {
	for _, f := range fields {
		if !(f.value >= f.min && f.value <= f.max) {
			return fmt.Errorf("%s is %g: want %g to %g", f.name, f.value, f.min, f.max)
		}
	}
	return nil
}

// checkStreams guards the number of path draws.
func checkStreams(s *scenarios.Scenario) error {
	return checkFields([]field{{"transfer.streams", float64(s.Transfer.Streams), 1, 4096}})
}

// maxTokens bounds any token count, so that sums and block counts stay small numbers.
const maxTokens = 100_000_000

func checkSynthetic(w *scenarios.Synthetic, blockTokens int) error {
	if w == nil {
		return fmt.Errorf("workload.synthetic is missing though workload.kind is synthetic")
	}
	fields := []field{
		{"workload.synthetic.requests", float64(w.Requests), 1, 1e6},
		{"workload.synthetic.rate", w.Rate, 1e-9, 1e9},
		{"workload.synthetic.prefix.share", w.Prefix.Share, 0, 1},
		{"workload.synthetic.prefix.fraction", w.Prefix.Fraction, 0, 1},
		{"engine.blockTokens", float64(blockTokens), 1, 4096},
	}
	for _, l := range []struct {
		name string
		scenarios.LengthTokens
	}{{"prompt", w.Prompt}, {"output", w.Output}} {
		at := "workload.synthetic." + l.name + "."
		fields = append(fields,
			field{at + "mean", l.Mean, 1, maxTokens},
			field{at + "sigma", l.Sigma, 0, 10},
			field{at + "min", float64(l.Min), 1, maxTokens},
			field{at + "max", float64(l.Max), float64(l.Min), maxTokens},
		)
	}
	if w.Prefix.Share > 0 {
		fields = append(fields, field{"workload.synthetic.prefix.groups", float64(w.Prefix.Groups), 1, math.MaxInt32})
	}
	switch w.Arrivals {
	case "poisson":
	case "bursty":
		fields = append(fields, field{"workload.synthetic.burstiness", w.Burstiness, 1e-4, 1e4})
	default:
		return fmt.Errorf("workload.synthetic.arrivals %q: want poisson or bursty", w.Arrivals)
	}
	return checkFields(fields)
}
