package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/kvagent/engine"
	"github.com/netkvlab/netkvlab/scheduler"
)

// of assigns requests to tenants.
func of(tenants []int, reqs ...workload.Request) []workload.Request {
	for i := range reqs {
		reqs[i].Tenant = tenants[i]
	}
	return reqs
}

func TestATenantWithoutRequestsChangesNothing(t *testing.T) {
	for _, policy := range scheduler.Names() {
		t.Run(policy, func(t *testing.T) {
			b := crowd(1, policy)
			c, w := b.start(t)
			w.run(c)
			alone := lawful(t, c)
			b.tenants = 3
			for i := range b.requests {
				b.requests[i].Tenant = 1
			}
			c, w = b.start(t)
			w.run(c)
			beside := lawful(t, c)
			for i := range beside {
				assert.Equal(t, 0, alone[i].Tenant, "one tenant has no number")
				assert.Equal(t, 2, beside[i].Tenant, "numbers start at 1")
				beside[i].Tenant = 0
			}
			assert.Equal(t, alone, beside)
		})
	}
}

// crowd is a cluster with little memory and bursts of requests.
func crowd(seed uint64, policy string) bench {
	b := one()
	b.prefills, b.decodes, b.batch, b.mode, b.policy = 2, 3, 2, engine.Delay, policy
	b.memory = 16 * 512 * kvBytes
	rng := rand.New(rand.NewPCG(seed, 1))
	at := time.Duration(0)
	for i := range 60 {
		at += time.Duration(rng.IntN(3)) * 40 * time.Millisecond
		n := 500 + rng.IntN(2500)
		group := uint64(rng.IntN(3)) * 100
		var blocks []uint64
		for k := range (n + 511) / 512 {
			blocks = append(blocks, group+uint64(k))
		}
		r := request(i, at, n, 1+rng.IntN(20), blocks...)
		r.Tenant = 0
		b.requests = append(b.requests, r)
	}
	return b
}

func TestTwoTenantsHerdWhereOneSchedulerSpreads(t *testing.T) {
	for _, tt := range []struct {
		name    string
		tenants []int
		want    []string
	}{
		{"one scheduler", []int{0, 0}, []string{"d0", "d1"}},
		{"two tenants", []int{0, 1}, []string{"d0", "d0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := one()
			b.decodes, b.tenants, b.policy, b.mode = 2, 2, "least-loaded", engine.Delay
			b.requests = of(tt.tenants, request(0, 0, 2000, 5), request(1, 0, 2000, 5))
			for i := range b.requests {
				b.requests[i].TieBreak = 0 // the same draw for both
			}
			c, w := b.start(t)
			w.run(c)
			assert.Equal(t, tt.want, decodesOf(lawful(t, c)))
		})
	}
}

// d0 is near (1 GB/s), d1 far (300 MB/s): the near one stays better until the tenant counts four
// transfers of its own to it.
func TestSelfContentionCountsOnlyTheTenantsOwn(t *testing.T) {
	for _, tt := range []struct {
		name    string
		tenants []int
		want    []string
	}{
		{"one scheduler leaves the near one when it is crowded", []int{0, 0, 0, 0, 0}, []string{"d0", "d0", "d0", "d1", "d0"}},
		{"each of two tenants sees half the crowd", []int{0, 1, 0, 1, 0}, []string{"d0", "d0", "d0", "d0", "d0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := one()
			b.decodes, b.tenants, b.policy, b.mode = 2, 2, "netkv-static", engine.Delay
			b.edit = func(c *Config) {
				for i := range c.Tenants {
					c.Tenants[i].State = nearAndFar(t, b)
				}
			}
			for i := range tt.tenants {
				b.requests = append(b.requests, request(i, time.Duration(i)*time.Millisecond, 2000, 5))
			}
			b.requests = of(tt.tenants, b.requests...)
			c, w := b.start(t)
			w.run(c)
			assert.Equal(t, tt.want, decodesOf(lawful(t, c)))
		})
	}
}

func nearAndFar(t *testing.T, b bench) *scheduler.State {
	s, err := scheduler.NewState(scheduler.Options{
		Prefills: 1, Decodes: 2, MaxBatch: 8, BlockTokens: 512, KVBytesPerToken: kvBytes, MemoryBytes: 1 << 40,
		DecodeBase: b.step, InFlightCap: 16, Separation: true,
		Oracle: scheduler.Oracle{Tier: []uint8{2, 3}, BytesPerSecond: [4]float64{1e9, 1e9, 1e9, 3e8}},
	})
	require.NoError(t, err)
	return s
}

func decodesOf(rows []results.Record) []string {
	var out []string
	for i := range rows {
		out = append(out, rows[i].Decode)
	}
	return out
}

// TestOthersHearOfARequestWhenTheInstanceReportsIt follows one request of tenant 0 through the
// states of both tenants.
func TestOthersHearOfARequestWhenTheInstanceReportsIt(t *testing.T) {
	b := one()
	b.tenants, b.memory, b.policy = 2, 10_000_000, "netkv-full"
	b.requests = []workload.Request{request(0, 0, 2000, 10)}
	c, _ := b.start(t)
	type view struct{ inFlight, queued, batch, free int }
	check := func(what string, own, other view) {
		t.Helper()
		for i, want := range []view{own, other} {
			s := c.decodes.tenants[i].State
			assert.Equal(t, want, view{s.InFlight(3, 0), s.Queued(0), s.Batch(0), int(s.Free(0))}, "tenant %d %s", i, what)
		}
	}
	c.Wake(0)
	ev := Event{Kind: PrefillDone, Request: 0, At: time.Second}
	c.Handle(ev.At, ev)
	check("when it is decided", view{1, 1, 0, 7_990_000}, view{0, 0, 0, 10_000_000})
	c.Handle(ev.At, Event{Kind: Congestion, Congestion: [4]float64{3: 0.5}})
	c.Handle(ev.At, Event{Kind: CacheChanged, FreeBytes: 9_000_000})
	check("when the instance reports before it has heard", view{1, 1, 0, 6_990_000}, view{0, 0, 0, 9_000_000})
	ev = Event{Request: 0, Attempt: 1, At: time.Second, OK: true, FreeBytes: 7_952_000}
	ev.Kind = Reserved
	c.Handle(ev.At, ev)
	check("when its memory is reserved", view{1, 1, 0, 7_952_000}, view{0, 0, 0, 7_952_000})
	ev.Kind, ev.BytesEmulated = TransferDone, 200_000
	c.Handle(ev.At, ev)
	check("when it has arrived", view{0, 1, 0, 7_952_000}, view{0, 1, 0, 7_952_000})
	ev.Kind = Admitted
	c.Handle(ev.At, ev)
	check("when it is in the batch", view{0, 0, 1, 7_952_000}, view{0, 0, 1, 7_952_000})
	ev.Kind = FirstToken
	c.Handle(ev.At, ev)
	ev.Kind, ev.FreeBytes = Finished, 10_000_000
	c.Handle(ev.At, ev)
	check("when it has ended", view{0, 0, 0, 10_000_000}, view{0, 0, 0, 10_000_000})
	assert.True(t, c.Done())
}

func TestAHeldRequestKeepsOnlyItsOwnTenantWaiting(t *testing.T) {
	for _, tt := range []struct {
		name    string
		tenants []int
		passes  bool // request 3 fits when 1 has ended, and completes before 0
	}{
		{"one scheduler keeps the order", []int{0, 0, 0, 0}, false},
		{"another tenant's fits and goes", []int{0, 0, 0, 1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := one()
			b.mode, b.tenants, b.memory = engine.Delay, 2, 12*512*kvBytes
			b.requests = of(tt.tenants,
				request(0, 0, 3000, 200), request(1, 0, 1000, 50), // 7 and 3 of 12 blocks
				request(2, time.Second, 3000, 200), request(3, 1300*time.Millisecond, 1100, 10)) // 7 and 4: both are held
			c, w := b.start(t)
			w.run(c)
			rows := lawful(t, c)
			assert.Equal(t, tt.passes, *rows[3].FinishMS < *rows[0].FinishMS)
		})
	}
}

// TestManyTenantsLeaveNothingOnAnyBook mixes tenants, lost instances and failed transfers.
func TestManyTenantsLeaveNothingOnAnyBook(t *testing.T) {
	for seed := range uint64(20) {
		for _, policy := range []string{"rr", "dynamo", "netkv-full"} {
			t.Run(fmt.Sprintf("%s, seed %d", policy, seed), func(t *testing.T) {
				b := crowd(seed, policy)
				b.tenants = 4
				rng := rand.New(rand.NewPCG(seed, 2))
				for i := range b.requests {
					b.requests[i].Tenant = rng.IntN(4)
				}
				c, w := b.start(t)
				w.onTransfer = func(Action) *Event {
					if rng.IntN(10) > 0 {
						return nil
					}
					return &Event{Kind: Failed, At: w.now, Reason: "reset"}
				}
				w.deafD[int(seed%3)] = true
				w.later(900*time.Millisecond, Event{Kind: PrefillDown, Prefill: 0, Reason: "killed"})
				w.run(c)
				completed := 0
				for _, r := range lawful(t, c) {
					if r.Status == results.Completed {
						completed++
					}
				}
				assert.Greater(t, completed, 30)
			})
		}
	}
}

func TestTenantsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"nobody decides", func(c *Config) { c.Tenants = nil }, "needs a policy and its state"},
		{"no state", func(c *Config) { c.Tenants[1].State = nil }, "tenant 1 needs a policy and its state"},
		{"one state for two", func(c *Config) { c.Tenants[1].State = c.Tenants[0].State }, "tenants 0 and 1 share a state"},
		{"unknown tenant", func(c *Config) { c.Requests = of([]int{2}, request(0, 0, 1, 1)) }, "request 0 is of tenant 2, and there are 2"},
		{"negative tenant", func(c *Config) { c.Requests = of([]int{-1}, request(0, 0, 1, 1)) }, "request 0 is of tenant -1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := one()
			b.tenants = 2
			c, _ := b.start(t)
			cfg := c.cfg
			tt.edit(&cfg)
			_, err := NewServing(cfg)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}
