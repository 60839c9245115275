package scheduler_test

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/scheduler"
)

// A router keeps a State, asks a policy for each request whose prefill is done,
// and reports what happens to the request afterwards.
func Example() {
	const prefills, decodes = 1, 2
	state, err := scheduler.NewState(scheduler.Options{
		Prefills: prefills, Decodes: decodes,
		MaxBatch: 64, BlockTokens: 512,
		KVBytesPerToken: 327_680, // Llama-3-70B, bf16
		MemoryBytes:     100e9, MinFreeBytes: 1e9,
		DecodeBase: 12_500 * time.Microsecond, DecodePerSequence: 100 * time.Microsecond,
		InFlightCap: 16, Separation: true,
		Oracle: scheduler.Oracle{
			Tier:           []uint8{2, 3}, // decode 0 is in the prefill's pod, decode 1 is not
			BytesPerSecond: [scheduler.Tiers]float64{450e9, 12.5e9, 6.25e9, 3.125e9},
			Latency:        [scheduler.Tiers]time.Duration{1000, 3000, 8000, 15000},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy, err := scheduler.New("netkv-full", scheduler.PolicyOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}

	request := &scheduler.Request{Prefill: 0, PromptTokens: 8192, OutputTokens: 200, TieBreak: 7}
	for range 3 {
		decision, ok := policy.Pick(request, state)
		if !ok {
			fmt.Println("no decode instance has the memory: wait for a Finished")
			return
		}
		state.Begin(request, decision) // counts at once, before any byte has moved
		fmt.Printf("decode %d, tier %d, %.3f s\n", decision.Decode, decision.Tier, decision.Cost)
	}

	// Later, as the engine and the transport report:
	state.TransferEnded(0, 0, 2)
	state.Admitted(0, request.PromptTokens)
	fmt.Println("in flight:", state.InFlight(2, 0), "queued:", state.Queued(0), "batch:", state.Batch(0))
	// Output:
	// decode 0, tier 2, 0.442 s
	// decode 0, tier 2, 0.872 s
	// decode 1, tier 3, 0.872 s
	// in flight: 1 queued: 1 batch: 1
}
