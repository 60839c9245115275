package analysis

import (
	"math/rand/v2"
	"time"

	"github.com/netkvlab/netkvlab/internal/results"
)

// testMeta is the meta of the runs that tests make up.
func testMeta() results.Meta {
	return results.Meta{
		Version: "v0.0.0-test", Scenario: "made-up", Seeds: []uint64{1, 2, 3}, Scale: results.Scale{Rate: 400, Time: 1},
		SLO:      results.SLO{TTFT: 2 * time.Second, TBT: 50 * time.Millisecond},
		Fidelity: results.Fidelity{Verdict: results.VerdictGood},
		Policies: []string{"rr", "cla", "netkv-full", "dead"},
		Worlds:   []string{results.WorldPacket, results.WorldFlow, results.WorldReplay},
	}
}

func ptr(v float64) *float64 { return &v }

// madeRecord returns a completed record that obeys every law.
func madeRecord(rng *rand.Rand, world, policy string, seed uint64, id int) results.Record {
	r := results.Record{
		World: world, Policy: policy, Seed: seed, ID: id, Status: results.Completed,
		ArrivalMS: float64(id) * 100, PromptTokens: 1000 + rng.IntN(9000), OutputTokens: 1 + rng.IntN(3),
		Prefill: "p0", Decode: "d0", Tier: 2 + rng.IntN(2), Attempts: 1,
		PrefillWaitMS: rng.Float64() * 10, PrefillMS: 500 + rng.Float64()*100, ReserveMS: rng.Float64(),
		TransferMS: 200 + rng.Float64()*1500, DecodeWaitMS: rng.Float64() * 20, FirstStepMS: 12.5,
		DecisionUS: 1 + rng.Float64(), PayloadBytes: 400_000, PayloadBytesEmulated: 1000, MovedBytesEmulated: 1000,
		Retransmits: rng.IntN(3),
	}
	r.HitTokens = rng.IntN(r.PromptTokens)
	if policy == "netkv-full" {
		r.TransferMS *= 0.7
	}
	r.TransferStartMS = r.ArrivalMS + r.PrefillWaitMS + r.PrefillMS + r.ReserveMS
	r.TTFTMS = ptr(r.PrefillWaitMS + r.PrefillMS + r.ReserveMS + r.TransferMS + r.DecodeWaitMS + r.FirstStepMS)
	if r.OutputTokens > 1 {
		r.TBTMS = ptr(12.5 + rng.Float64()*50)
	}
	r.FinishMS = ptr(r.ArrivalMS + *r.TTFTMS + 100)
	return r
}

// fail turns a completed record into one that failed during its transfer.
func fail(r results.Record, reason string) results.Record {
	r.Status, r.Reason = results.Failed, reason
	r.TransferMS, r.DecodeWaitMS, r.FirstStepMS = 0, 0, 0
	r.TTFTMS, r.TBTMS, r.FinishMS = nil, nil, nil
	r.MovedBytesEmulated, r.WastedBytesEmulated = 0, 300
	return r
}

// madeRun makes up a run with n requests per seed: three worlds, three seeds, some failures, and
// the policy "dead" that completes nothing.
func madeRun(n int) []results.Record {
	var out []results.Record
	for _, world := range []string{results.WorldPacket, results.WorldFlow, results.WorldReplay} {
		for _, policy := range []string{"rr", "cla", "netkv-full", "dead"} {
			for seed := uint64(1); seed <= 3; seed++ {
				rng := rand.New(rand.NewPCG(seed, uint64(len(world)*100+len(policy))))
				for id := range n {
					r := madeRecord(rng, world, policy, seed, id)
					if policy == "dead" || policy == "cla" && rng.IntN(10) == 0 {
						r = fail(r, "decode instance died")
					}
					out = append(out, r)
				}
			}
		}
	}
	return out
}
