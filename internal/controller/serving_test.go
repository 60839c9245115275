package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/kvagent/engine"
	"github.com/netkvlab/netkvlab/scheduler"
)

// bench is a small cluster: 1 KB of KV per token, 512-token blocks, rate scale 10.
type bench struct {
	prefills, decodes int
	policy            string
	tenants           int
	batch             int
	memory, minFree   int64
	mode              engine.Mode
	prefillPerToken   time.Duration
	step              time.Duration
	requests          []workload.Request
	edit              func(*Config)
}

const kvBytes = 1000

func (b bench) start(t *testing.T) (*Serving, *world) {
	t.Helper()
	if b.prefills == 0 {
		b.prefills = 1
	}
	if b.decodes == 0 {
		b.decodes = 1
	}
	if b.batch == 0 {
		b.batch = 8
	}
	if b.memory == 0 {
		b.memory = 1 << 40
	}
	if b.policy == "" {
		b.policy = "rr"
	}
	model := engine.Model{PrefillPerTokenNs: float64(b.prefillPerToken), DecodeBase: b.step}
	oracle := scheduler.Oracle{
		Tier:           make([]uint8, b.prefills*b.decodes),
		BytesPerSecond: [4]float64{1e9, 1e8, 1e8, 1e8},
	}
	for i := range oracle.Tier {
		oracle.Tier[i] = 3
	}
	cfg := Config{
		World: "packet", Policy: b.policy, Seed: 1, Requests: b.requests,
		Prefill:         engine.PrefillConfig{Model: model, Mode: b.mode},
		KVBytesPerToken: kvBytes, MemoryBytes: b.memory, RateScale: 10, Streams: 4, NICs: 1,
		Paths: func(int, int) int { return 4 }, Retries: 2, Drain: time.Hour, TransferTimeout: time.Minute, AnswerTimeout: time.Second,
	}
	w := &world{t: t, bytesPerSecond: 1.25e6, attempts: map[uint64]int{}, deafP: map[int]bool{}, deafD: map[int]bool{}}
	for range max(1, b.tenants) {
		state, err := scheduler.NewState(scheduler.Options{
			Prefills: b.prefills, Decodes: b.decodes, MaxBatch: b.batch, BlockTokens: 512, KVBytesPerToken: kvBytes,
			MemoryBytes: b.memory, MinFreeBytes: b.minFree, DecodeBase: b.step, InFlightCap: 16, Separation: true, Oracle: oracle,
		})
		require.NoError(t, err)
		policy, err := scheduler.New(b.policy, scheduler.PolicyOptions{CacheWeight: 1, LoadWeight: 1})
		require.NoError(t, err)
		cfg.Tenants = append(cfg.Tenants, Tenant{Scheduler: policy, State: state})
	}
	for i := range b.prefills {
		cfg.PrefillNames = append(cfg.PrefillNames, fmt.Sprintf("p%d", i))
		p, err := engine.NewPrefill(cfg.Prefill)
		require.NoError(t, err)
		w.prefil = append(w.prefil, p)
	}
	for i := range b.decodes {
		cfg.DecodeNames = append(cfg.DecodeNames, fmt.Sprintf("d%d", i))
		d, err := engine.NewDecode(engine.DecodeConfig{
			Model: model, MaxBatch: b.batch, MemoryBytes: b.memory, KVBytesPerToken: kvBytes, BlockTokens: 512,
		})
		require.NoError(t, err)
		w.decode = append(w.decode, d)
	}
	if b.edit != nil {
		b.edit(&cfg)
	}
	c, err := NewServing(cfg)
	require.NoError(t, err)
	return c, w
}

func request(id int, at time.Duration, prompt, output int, blocks ...uint64) workload.Request {
	return workload.Request{
		ID: id, Arrival: at, PromptTokens: prompt, OutputTokens: output, Blocks: blocks,
		TieBreak: uint64(id) * 7919, PathDraws: []uint64{uint64(id), 1, 2, 3},
	}
}

// lawful checks the laws of every finished trial.
func lawful(t *testing.T, c *Serving) []results.Record {
	t.Helper()
	rows := c.Records()
	require.Len(t, rows, len(c.cfg.Requests))
	for i := range rows {
		assert.NoError(t, rows[i].Check())
	}
	for i, own := range c.decodes.tenants {
		for d := range c.cfg.DecodeNames {
			assert.Zero(t, own.State.Queued(d), "tenant %d: queue of decode %d", i, d)
			assert.Zero(t, own.State.Batch(d), "tenant %d: batch of decode %d", i, d)
			assert.Zero(t, own.booked[d], "tenant %d: bookings of decode %d", i, d)
		}
		for tier := range scheduler.Tiers {
			for p := range c.cfg.PrefillNames {
				assert.Zero(t, own.State.InFlight(tier, p), "tenant %d: in flight from prefill %d on tier %d", i, p, tier)
			}
		}
	}
	return rows
}

func ms(d time.Duration) float64 { return results.MS(d) }

// 2000 tokens: prefill 200 ms, 2 MB of KV = 200 kB emulated at 1.25 MB/s = 160 ms, first step 30 ms.
func one() bench {
	return bench{prefillPerToken: 100 * time.Microsecond, step: 30 * time.Millisecond}
}

func TestTTFTIsTheSumOfItsParts(t *testing.T) {
	b := one()
	b.requests = []workload.Request{request(0, time.Second, 2000, 3)}
	c, w := b.start(t)
	w.run(c)
	r := lawful(t, c)[0]
	assert.Equal(t, results.Completed, r.Status)
	assert.InDelta(t, 0, r.PrefillWaitMS, 1e-9)
	assert.InDelta(t, 200, r.PrefillMS, 1e-9)
	assert.InDelta(t, 0, r.ReserveMS, 1e-9)
	assert.InDelta(t, 160, r.TransferMS, 1e-9)
	assert.InDelta(t, 30, r.FirstStepMS, 1e-9)
	assert.InDelta(t, 390, *r.TTFTMS, 1e-9)
	assert.InDelta(t, 30, *r.TBTMS, 1e-9)
	assert.Equal(t, int64(2_000_000), r.PayloadBytes)
	assert.Equal(t, int64(200_000), r.MovedBytesEmulated)
	assert.Len(t, r.Streams, 4)
}

func TestOneTokenAnswersHaveNoTBT(t *testing.T) {
	b := one()
	b.requests = []workload.Request{request(0, 0, 2000, 1)}
	c, w := b.start(t)
	w.run(c)
	assert.Nil(t, lawful(t, c)[0].TBTMS)
}

func TestBatchOfOneMakesSimultaneousRequestsWait(t *testing.T) {
	b := one()
	b.batch, b.mode = 1, engine.Delay
	b.requests = []workload.Request{request(0, 0, 2000, 1), request(1, 0, 2000, 1), request(2, 0, 2000, 1)}
	c, w := b.start(t)
	w.run(c)
	var waits []float64
	for _, r := range lawful(t, c) {
		waits = append(waits, r.DecodeWaitMS)
	}
	assert.ElementsMatch(t, []float64{0, 30, 60}, waits)
}

func TestQueuedPrefillsWaitTheirTurn(t *testing.T) {
	b := one()
	b.mode = engine.Queue
	b.requests = []workload.Request{request(0, 0, 2000, 1), request(1, 0, 2000, 1)}
	c, w := b.start(t)
	w.run(c)
	rows := lawful(t, c)
	assert.InDelta(t, 0, rows[0].PrefillWaitMS, 1e-9)
	assert.InDelta(t, 200, rows[1].PrefillWaitMS, 1e-9)
}

func TestOnlyMissingBlocksMove(t *testing.T) {
	twenty := make([]uint64, 20)
	for i := range twenty {
		twenty[i] = uint64(100 + i)
	}
	mixed := append(append([]uint64{}, twenty[:10]...), 900, 901, 902, 903, 904, 905, 906, 907, 908, 909)
	b := one()
	b.requests = []workload.Request{
		request(0, 0, 20*512-100, 1, twenty...),
		request(1, time.Minute, 20*512, 1, mixed...),
		request(2, 2*time.Minute, 20*512-100, 1, twenty...),
	}
	c, w := b.start(t)
	w.run(c)
	rows := lawful(t, c)
	assert.Equal(t, int64((20*512-100)*kvBytes), rows[0].PayloadBytes, "nothing was there")
	assert.Equal(t, int64(10*512*kvBytes), rows[1].PayloadBytes, "ten of twenty blocks were there")
	assert.Zero(t, rows[2].PayloadBytes, "everything was there")
	assert.Zero(t, rows[2].MovedBytesEmulated)
	assert.Equal(t, results.Completed, rows[2].Status)
	assert.InDelta(t, 0, rows[2].TransferMS, 1e-9)
}

func TestFailedTransfersAreRetriedThenFailWithTheReason(t *testing.T) {
	for _, tt := range []struct {
		name     string
		failures int
		status   string
	}{
		{"one failure is made good", 1, results.Completed},
		{"as many as there are retries are made good", 2, results.Completed},
		{"one more is the end", 3, results.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := one()
			b.decodes = 2
			b.requests = []workload.Request{request(0, 0, 2000, 2)}
			c, w := b.start(t)
			left := tt.failures
			w.onTransfer = func(Action) *Event {
				if left == 0 {
					return nil
				}
				left--
				return &Event{Kind: Failed, At: w.now + time.Second, Reason: "connection reset", BytesEmulated: 1000}
			}
			w.run(c)
			r := lawful(t, c)[0]
			assert.Equal(t, tt.status, r.Status)
			assert.Equal(t, int64(1000*tt.failures), r.WastedBytesEmulated)
			if tt.status == results.Failed {
				assert.Contains(t, r.Reason, "connection reset")
				assert.Nil(t, r.TTFTMS)
			} else {
				assert.InDelta(t, ms(time.Duration(tt.failures)*time.Second), r.ReserveMS, 1e-6)
			}
		})
	}
}

func TestTheReceiverKnowsBestWhetherATransferArrived(t *testing.T) {
	b := one()
	b.requests = []workload.Request{request(0, 0, 2000, 5)}
	c, w := b.start(t)
	// 200 ms of prefill and 160 ms of transfer later, the sender's connection breaks.
	w.later(370*time.Millisecond, Event{Kind: Failed, Request: 0, Attempt: 1, BySender: true, Reason: "connection reset"})
	w.run(c)
	r := lawful(t, c)[0]
	assert.Equal(t, results.Completed, r.Status)
	assert.Equal(t, 1, r.Attempts)
	assert.Zero(t, r.WastedBytesEmulated)
}

func TestLostInstancesGiveTheirRequestsToOthers(t *testing.T) {
	b := one()
	b.prefills, b.decodes, b.mode = 2, 2, engine.Delay
	for i := range 20 {
		b.requests = append(b.requests, request(i, time.Duration(i)*20*time.Millisecond, 2000, 5))
	}
	for _, kind := range []EventKind{PrefillDown, DecodeDown} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			c, w := b.start(t)
			w.later(250*time.Millisecond, Event{Kind: kind, Prefill: 0, Decode: 0, Reason: "agent p0 is gone"})
			w.run(c)
			for _, r := range lawful(t, c) {
				assert.Equal(t, results.Completed, r.Status, r.Reason)
			}
		})
	}
}

func TestSilentInstancesAreTakenOutOfService(t *testing.T) {
	b := one()
	b.prefills, b.decodes, b.mode = 2, 2, engine.Delay
	for i := range 12 {
		b.requests = append(b.requests, request(i, time.Duration(i)*20*time.Millisecond, 2000, 2))
	}
	for _, tt := range []struct {
		name string
		deaf func(*world)
	}{
		{"a prefill that never finishes", func(w *world) { w.deafP[0] = true }},
		{"a decode that never answers", func(w *world) { w.deafD[1] = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := b.start(t)
			tt.deaf(w)
			w.run(c)
			for _, r := range lawful(t, c) {
				assert.Equal(t, results.Completed, r.Status, r.Reason)
			}
		})
	}
}

func TestRequestsThatAreHandedOverLateHaveTheirTimeAllTheSame(t *testing.T) {
	b := one()
	for i := range 5 {
		b.requests = append(b.requests, request(i, time.Duration(i)*time.Second, 2000, 2))
	}
	c, w := b.start(t)
	w.now = time.Minute // the controller was stopped
	c.Postpone(time.Minute)
	w.run(c)
	for _, r := range lawful(t, c) {
		assert.Equal(t, results.Completed, r.Status, r.Reason)
	}
}

func TestNothingLeftMeansFailureWithAReason(t *testing.T) {
	b := one()
	b.requests = []workload.Request{request(0, 0, 2000, 2), request(1, time.Second, 2000, 2)}
	c, w := b.start(t)
	w.later(100*time.Millisecond, Event{Kind: DecodeDown, Decode: 0, Reason: "killed"})
	w.run(c)
	for _, r := range lawful(t, c) {
		assert.Equal(t, results.Failed, r.Status)
		assert.Contains(t, r.Reason, "no decode instance is up")
	}
}

func TestRequestsWaitForMemoryInOrder(t *testing.T) {
	b := one()
	b.mode = engine.Delay
	b.memory = 6 * 512 * kvBytes // little more than one request of 2000 + 10 tokens
	for i := range 4 {
		b.requests = append(b.requests, request(i, time.Duration(i)*time.Millisecond, 2000, 10))
	}
	c, w := b.start(t)
	w.run(c)
	last := 0.0
	for _, r := range lawful(t, c) {
		require.Equal(t, results.Completed, r.Status, r.Reason)
		assert.Greater(t, *r.FinishMS, last, "first come, first served")
		last = *r.FinishMS
	}
}

func TestARequestLargerThanAnyInstanceFailsAtOnce(t *testing.T) {
	b := one()
	b.memory = 2 * 512 * kvBytes
	b.requests = []workload.Request{request(0, 0, 2000, 10)}
	c, w := b.start(t)
	w.run(c)
	r := lawful(t, c)[0]
	assert.Equal(t, results.Failed, r.Status)
	assert.Contains(t, r.Reason, "KV memory")
}

func TestTheDrainLimitEndsATrial(t *testing.T) {
	b := one()
	b.edit = func(c *Config) { c.Drain = 10 * time.Second }
	b.requests = []workload.Request{request(0, 0, 2000, 100_000)}
	c, w := b.start(t)
	w.run(c)
	assert.Contains(t, lawful(t, c)[0].Reason, "not finished 10s after the last arrival")
}

func TestCuttingATrialKeepsWhatHasEnded(t *testing.T) {
	b := one()
	b.requests = []workload.Request{request(0, 0, 2000, 1), request(1, time.Hour, 2000, 1)}
	c, w := b.start(t)
	for ended := 0; ended == 0; ended, _ = c.Progress() {
		kind, at := w.next(c)
		w.now = at
		switch kind {
		case "wake":
			w.carryOut(c.Wake(at))
		case "event":
			ev := w.pop()
			w.arrive(ev)
			w.carryOut(c.Handle(at, ev))
		case "engines":
			w.advance()
		}
	}
	c.Cut(w.now, "interrupted")
	rows := lawful(t, c)
	assert.Equal(t, results.Completed, rows[0].Status)
	assert.Equal(t, results.Incomplete, rows[1].Status)
	assert.Equal(t, "interrupted", rows[1].Reason)
}

func TestPrefillChoiceDoesNotDependOnThePolicy(t *testing.T) {
	var want []string
	for _, policy := range []string{"rr", "random", "cla", "netkv-full"} {
		b := one()
		b.policy, b.prefills, b.decodes, b.mode = policy, 4, 4, engine.Delay
		for i := range 200 {
			b.requests = append(b.requests, request(i, time.Duration(i)*13*time.Millisecond, 500+37*i%3000, 1+i%20))
		}
		c, w := b.start(t)
		w.run(c)
		var got []string
		for _, r := range lawful(t, c) {
			got = append(got, r.Prefill)
		}
		if want == nil {
			want = got
		}
		assert.Equal(t, want, got, policy)
	}
}

func TestOverlapHidesTheTransferBehindThePrefill(t *testing.T) {
	b := one()
	b.edit = func(c *Config) { c.OverlapPieces = func(int) int { return 4 } }
	b.requests = []workload.Request{request(0, 0, 2000, 2)}
	c, w := b.start(t)
	var pieces Action
	w.onTransfer = func(a Action) *Event {
		pieces = a
		return &Event{Kind: TransferDone, At: 240 * time.Millisecond, BytesEmulated: 200_000, Decode: a.Decode}
	}
	w.run(c)
	r := lawful(t, c)[0]
	assert.Equal(t, 4, pieces.Pieces)
	assert.Equal(t, 200*time.Millisecond, pieces.ReleaseTo)
	assert.InDelta(t, 200, r.PrefillMS, 1e-9)
	assert.InDelta(t, 40, r.TransferMS, 1e-9, "only what is visible after the prefill")
	assert.InDelta(t, 270, *r.TTFTMS, 1e-9)
}

func TestOverlapWithNothingToMoveStillWaitsForThePrefill(t *testing.T) {
	b := one()
	b.edit = func(c *Config) { c.OverlapPieces = func(int) int { return 4 } }
	b.requests = []workload.Request{request(0, 0, 1024, 2, 1, 2), request(1, time.Second, 1024, 2, 1, 2)}
	c, w := b.start(t)
	w.onTransfer = func(a Action) *Event {
		if len(a.Streams) == 0 {
			return nil // it arrives at once
		}
		return &Event{Kind: TransferDone, At: a.ReleaseTo, BytesEmulated: 102_400, Decode: a.Decode}
	}
	w.run(c)
	r := lawful(t, c)[1]
	assert.Equal(t, 1024, r.HitTokens)
	assert.InDelta(t, 102.4, r.PrefillMS, 1e-9)
	assert.Zero(t, r.TransferMS)
	assert.InDelta(t, 132.4, *r.TTFTMS, 1e-9)
}

func TestATransferThatFailsDuringThePrefillStartsBothAnew(t *testing.T) {
	b := one()
	b.edit = func(c *Config) { c.OverlapPieces = func(int) int { return 4 } }
	b.requests = []workload.Request{request(0, 0, 2000, 2)}
	c, w := b.start(t)
	failures := 2
	w.onTransfer = func(a Action) *Event {
		if failures--; failures >= 0 {
			return &Event{Kind: Failed, At: w.now + 50*time.Millisecond, Reason: "cut", Decode: a.Decode}
		}
		return &Event{Kind: TransferDone, At: a.ReleaseTo, BytesEmulated: 200_000, Decode: a.Decode}
	}
	w.run(c)
	r := lawful(t, c)[0]
	require.Equal(t, results.Completed, r.Status, r.Reason)
	assert.InDelta(t, 100, r.PrefillWaitMS, 1e-9, "two attempts of 50 ms")
	assert.InDelta(t, 330, *r.TTFTMS, 1e-9)
}

func TestALostDecodeInstanceDoesNotLeaveThePromptComputing(t *testing.T) {
	b := one()
	b.decodes = 2
	b.edit = func(c *Config) { c.OverlapPieces = func(int) int { return 4 } }
	b.requests = []workload.Request{request(0, 0, 2000, 2)}
	c, w := b.start(t)
	w.deafD[0] = true // and does not answer the reservation
	w.run(c)
	r := lawful(t, c)[0]
	require.Equal(t, results.Completed, r.Status, r.Reason)
}

func TestRequestsThatNoIdleInstanceTakesDoNotWaitForTheDrainLimit(t *testing.T) {
	b := one()
	b.memory = 5 * 512 * kvBytes
	b.requests = []workload.Request{request(0, 0, 2100, 100), request(1, 0, 2000, 100)}
	c, w := b.start(t)
	w.run(c)
	rows := lawful(t, c)
	assert.Equal(t, "needs 3072000 bytes of KV memory in whole blocks, an instance has 2560000", rows[0].Reason)
	assert.Equal(t, results.Completed, rows[1].Status)
	assert.Less(t, w.now, time.Minute)
}

func TestRequestsThatMinFreeShutsOutFailWhenAllIsIdle(t *testing.T) {
	b := one()
	b.memory = 5 * 512 * kvBytes
	b.minFree = 1_000_000
	b.requests = []workload.Request{request(0, 0, 1000, 100), request(1, 0, 2000, 100)}
	c, w := b.start(t)
	w.run(c)
	rows := lawful(t, c)
	assert.Equal(t, results.Completed, rows[0].Status)
	assert.Contains(t, rows[1].Reason, "no decode instance can take it")
	assert.Less(t, w.now, time.Minute)
}

func TestStickyPathsStayTheSameForAPair(t *testing.T) {
	b := one()
	b.edit = func(c *Config) { c.Sticky = true }
	b.requests = []workload.Request{request(0, 0, 2000, 1), request(7-6, time.Minute, 2000, 1)}
	c, w := b.start(t)
	w.run(c)
	rows := lawful(t, c)
	for s := range rows[0].Streams {
		assert.Equal(t, rows[0].Streams[s].Slot, rows[1].Streams[s].Slot)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"no decode", func(c *Config) { c.DecodeNames = nil }, "no decode instance"},
		{"no streams", func(c *Config) { c.Streams = 0 }, "streams"},
		{"rate scale", func(c *Config) { c.RateScale = 0 }, "rate scale"},
		{"order", func(c *Config) { c.Requests = []workload.Request{request(1, 0, 1, 1)} }, "arrival order"},
		{"draws", func(c *Config) { c.Requests = []workload.Request{{ID: 0, PromptTokens: 1, OutputTokens: 1}} }, "path draws"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := one().start(t)
			cfg := c.cfg
			tt.edit(&cfg)
			_, err := NewServing(cfg)
			require.Error(t, err)
			assert.True(t, strings.Contains(err.Error(), tt.want), err)
		})
	}
}

// A refused reservation holds its request again, after another request was looked at in
// between, perhaps one that no instance can ever take.
func TestARequestIsHeldForItsOwnSizeAndNotForAnothers(t *testing.T) {
	t.Parallel()
	c, _ := bench{memory: 10 << 20, step: time.Millisecond, requests: []workload.Request{request(0, 0, 600, 5), request(1, 0, 600, 5)}}.start(t)
	c.flights[1].shown.PromptTokens = 1 << 30
	f := &c.flights[0]
	c.hold(f)
	assert.Equal(t, stageHeld, f.stage)
}
