package engine_test

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/kvagent/engine"
)

// A simulator jumps from event to event; an agent with real timers sleeps until
// the instant that Next returns and makes the same calls.
func ExampleDecode() {
	d, err := engine.NewDecode(engine.DecodeConfig{
		Model:    engine.Model{DecodeBase: 12_500 * time.Microsecond, DecodePerSequence: 100 * time.Microsecond},
		MaxBatch: 64, MemoryBytes: 100e9, KVBytesPerToken: 327_680, BlockTokens: 512,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for id := range uint64(2) {
		hit, err := d.Reserve(0, engine.Reservation{ID: id, PromptTokens: 1000, OutputTokens: 100, Blocks: []uint64{7, 8}})
		if err != nil {
			fmt.Println(err) // a *NoMemoryError: try another instance
			return
		}
		fmt.Printf("request %d: transfer %d of 1000 tokens\n", id, 1000-hit)
		if err := d.Arrive(time.Duration(id)*20*time.Millisecond, id); err != nil { // when the last byte has arrived
			fmt.Println(err)
			return
		}
	}
	for at, ok := d.Next(); ok; at, ok = d.Next() {
		for _, e := range d.Advance(at) {
			if e.Kind != engine.CacheChanged {
				fmt.Printf("%v: request %d %v, batch %d\n", e.At, e.ID, e.Kind, e.Batch)
			}
		}
	}
	// Output:
	// request 0: transfer 1000 of 1000 tokens
	// request 1: transfer 0 of 1000 tokens
	// 0s: request 0 admitted, batch 1
	// 12.6ms: request 0 first token, batch 1
	// 25.2ms: request 1 admitted, batch 2
	// 37.9ms: request 1 first token, batch 2
	// 1.2698s: request 0 finished, batch 1
	// 1.295s: request 1 finished, batch 0
}
