package controller

import (
	"fmt"
	"slices"

	"github.com/netkvlab/netkvlab/scheduler"
)

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
