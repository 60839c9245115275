package results

import (
	"math/rand/v2"
)

func ptr(v float64) *float64 { return &v }

// madeRecord returns a completed record that obeys every law.
func madeRecord(rng *rand.Rand, world, policy string, seed uint64, id int) Record {
	r := Record{
		World: world, Policy: policy, Seed: seed, ID: id, Status: Completed,
		ArrivalMS: float64(id) * 100, PromptTokens: 1000 + rng.IntN(9000), OutputTokens: 1 + rng.IntN(3),
		Prefill: "p0", Decode: "d0", Tier: 2 + rng.IntN(2), Attempts: 1,
		PrefillWaitMS: rng.Float64() * 10, PrefillMS: 500 + rng.Float64()*100, ReserveMS: rng.Float64(),
		TransferMS: 200 + rng.Float64()*1500, DecodeWaitMS: rng.Float64() * 20, FirstStepMS: 12.5,
		DecisionUS: 1 + rng.Float64(), PayloadBytes: 400_000, PayloadBytesEmulated: 1000, MovedBytesEmulated: 1000,
		Retransmits: rng.IntN(3),
	}
	r.HitTokens = rng.IntN(r.PromptTokens)
	r.TransferStartMS = r.ArrivalMS + r.PrefillWaitMS + r.PrefillMS + r.ReserveMS
	r.TTFTMS = ptr(r.PrefillWaitMS + r.PrefillMS + r.ReserveMS + r.TransferMS + r.DecodeWaitMS + r.FirstStepMS)
	if r.OutputTokens > 1 {
		r.TBTMS = ptr(12.5 + rng.Float64()*50)
	}
	r.FinishMS = ptr(r.ArrivalMS + *r.TTFTMS + 100)
	return r
}

// fail turns a completed record into one that failed during its transfer.
func fail(r Record, reason string) Record {
	r.Status, r.Reason = Failed, reason
	r.TransferMS, r.DecodeWaitMS, r.FirstStepMS = 0, 0, 0
	r.TTFTMS, r.TBTMS, r.FinishMS = nil, nil, nil
	r.MovedBytesEmulated, r.WastedBytesEmulated = 0, 300
	return r
}

// madeRun makes up a run with n requests per policy and seed, some of which failed.
func madeRun(n int) []Record {
	var out []Record
	for _, policy := range []string{"rr", "cla"} {
		for seed := uint64(1); seed <= 3; seed++ {
			rng := rand.New(rand.NewPCG(seed, uint64(len(policy))))
			for id := range n {
				r := madeRecord(rng, WorldFlow, policy, seed, id)
				if rng.IntN(10) == 0 {
					r = fail(r, "decode instance died")
				}
				out = append(out, r)
			}
		}
	}
	return out
}
