package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/kvagent/engine"
	"github.com/netkvlab/netkvlab/scheduler"
)

// prefillPool chooses prefill instances by least outstanding prompt tokens.
//
// It uses a model of each instance and not the instances' reports. Prefill does not depend on
// the network, so the model is exact, and a report that is a millisecond late cannot change the
// next choice. So the choices are the same under every policy and in both worlds, until an
// instance dies.
type prefillPool struct {
	cfg  engine.PrefillConfig
	all  []prefillInstance
	ties []int // scratch
}

type prefillInstance struct {
	*engine.Prefill
	jobs   map[uint64]int // prompt tokens by request
	tokens int            // outstanding prompt tokens
	until  time.Duration  // when the queue will be empty
	down   bool
}

func newPrefillPool(n int, cfg engine.PrefillConfig) (*prefillPool, error) {
	p := &prefillPool{cfg: cfg}
	for i := range n {
		m, err := engine.NewPrefill(cfg)
		if err != nil {
			return nil, fmt.Errorf("prefill instance %d: %w", i, err)
		}
		p.all = append(p.all, prefillInstance{Prefill: m, jobs: map[uint64]int{}})
	}
	return p, nil
}

// choose picks the instance with the fewest outstanding tokens at the given time, and adds the
// prompt to it. The request's own draw decides between equals.
func (p *prefillPool) choose(at time.Duration, r *workload.Request) (int, bool) {
	p.ties = p.ties[:0]
	for i := range p.all {
		one := &p.all[i]
		if one.down {
			continue
		}
		one.settle(at)
		if len(p.ties) > 0 && one.tokens < p.all[p.ties[0]].tokens {
			p.ties = p.ties[:0]
		}
		if len(p.ties) == 0 || one.tokens == p.all[p.ties[0]].tokens {
			p.ties = append(p.ties, i)
		}
	}
	if len(p.ties) == 0 {
		return 0, false
	}
	best := p.ties[prefillDraw(r)%uint64(len(p.ties))]
	one, id := &p.all[best], uint64(r.ID)
	if err := one.Submit(at, id, r.PromptTokens); err != nil {
		return 0, false
	}
	one.jobs[id] = r.PromptTokens
	one.tokens += r.PromptTokens
	return best, true
}

// finish is when the model finishes a prompt that was just added.
func (p *prefillPool) finish(i int, at time.Duration, tokens int) time.Duration {
	one := &p.all[i]
	if p.cfg.Mode != engine.Delay {
		at = max(at, one.until)
	}
	one.until = at + p.cfg.Model.Prefill(tokens)
	return one.until
}

// forget removes a prompt that will not be finished from an instance.
func (p *prefillPool) forget(i int, at time.Duration, r *workload.Request) {
	one := &p.all[i]
	one.settle(at)
	if id := uint64(r.ID); one.Cancel(at, id) {
		one.remove(id)
	}
}

// settle removes the prompts that the model has finished by now.
func (p *prefillInstance) settle(now time.Duration) {
	for _, ev := range p.Advance(now) {
		if ev.Kind == engine.PrefillDone {
			p.remove(ev.ID)
		}
	}
}

func (p *prefillInstance) remove(id uint64) {
	p.tokens -= p.jobs[id]
	delete(p.jobs, id)
}

// prefillDraw is the request's draw between equal prefill instances. It differs from the
// scheduler's draw between equal decode instances: with a single draw both choices would have
// the same index, and so the same pod, far too often.
func prefillDraw(r *workload.Request) uint64 {
	// The finaliser of SplitMix64: every bit of the result depends on every bit of the draw.
	x := r.TieBreak + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Tenant is one scheduler of a trial and its view of the cluster. Tenants share the instances,
// the network and the oracle. Prefill instances are chosen in the same way for all; only decode
// instances are chosen per tenant.
//
// A request's own tenant counts it from the decision on: it is in flight, in the queue of the
// decode instance, and its memory is reserved. The others do not know it until that instance
// reports it: as waiting, when its last byte has arrived, then as part of the batch. Reports of
// free memory and cached blocks, the loss of an instance and the oracle's congestion reach all.
// No other tenant sees a transfer in flight. If congestion leaves out own traffic, it does not
// see it there either, since all KV traffic has one class.
type Tenant struct {
	Scheduler scheduler.Policy
	State     *scheduler.State // new, of the same instances, and not shared with another tenant
}

// tenant is a Tenant with its waiting requests.
type tenant struct {
	Tenant
	held    []int   // requests without a feasible decode instance, FIFO
	blocked bool    // set by retryHeld: the first held request does not fit
	booked  []int64 // per decode: memory requested and not yet answered
}

// decodePool is the decode instances as their tenants know them.
type decodePool struct {
	tenants []tenant
	free    []int64 // per decode: as last reported
	down    []bool
}

func newDecodePool(cfg *Config) (decodePool, error) {
	n := len(cfg.DecodeNames)
	p := decodePool{free: slices.Repeat([]int64{cfg.MemoryBytes}, n), down: make([]bool, n)}
	for i, t := range cfg.Tenants {
		if t.Scheduler == nil || t.State == nil {
			return p, fmt.Errorf("controller: tenant %d needs a policy and its state", i)
		}
		if other := slices.IndexFunc(p.tenants, func(o tenant) bool { return o.State == t.State }); other >= 0 {
			return p, fmt.Errorf("controller: tenants %d and %d share a state; each needs its own", other, i)
		}
		p.tenants = append(p.tenants, tenant{Tenant: t, booked: make([]int64, n)})
	}
	return p, nil
}

// lost reports whether no instance is up.
func (p *decodePool) lost() bool { return !slices.Contains(p.down, false) }

// tellAll applies a report of an instance or the operator to the state of every tenant.
func (p *decodePool) tellAll(report func(*scheduler.State)) { p.tellOthers(-1, report) }

// tellOthers is tellAll without one tenant.
func (p *decodePool) tellOthers(own int, report func(*scheduler.State)) {
	for i := range p.tenants {
		if i != own {
			report(p.tenants[i].State)
		}
	}
}

// setFree gives an instance's report of its free memory to all tenants. Each subtracts its own
// reservations that are not answered yet. It does not know those of the others.
func (p *decodePool) setFree(d int, reported int64) {
	if p.down[d] || reported < 0 {
		return
	}
	p.free[d] = reported
	for i := range p.tenants {
		t := &p.tenants[i]
		t.State.SetFree(d, reported-t.booked[d])
	}
}

// idle reports whether every instance that is up has all its memory free and owes no answer.
func (p *decodePool) idle() bool {
	for d, down := range p.down {
		waits := func(t tenant) bool { return t.booked[d] != 0 }
		if !down && (p.free[d] < p.tenants[0].State.Usable() || slices.ContainsFunc(p.tenants, waits)) {
			return false
		}
	}
	return true
}

// oldestHeld returns the tenant with the oldest first held request, among those that are not
// blocked; nil if there is none.
func (p *decodePool) oldestHeld() *tenant {
	var first *tenant
	for i := range p.tenants {
		t := &p.tenants[i]
		if !t.blocked && len(t.held) > 0 && (first == nil || t.held[0] < first.held[0]) {
			first = t
		}
	}
	return first
}

// held counts the entries in the tenants' queues.
func (p *decodePool) held() (n int) {
	for i := range p.tenants {
		n += len(p.tenants[i].held)
	}
	return n
}
