package controller

import (
	"fmt"

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

func checkTenants(all []Tenant) error {
	states := make(map[*scheduler.State]int, len(all))
	for i, t := range all {
		if t.Scheduler == nil || t.State == nil {
			return fmt.Errorf("controller: tenant %d needs a policy and its state", i)
		}
		if other, shared := states[t.State]; shared {
			return fmt.Errorf("controller: tenants %d and %d share a state; each needs its own", other, i)
		}
		states[t.State] = i
	}
	return nil
}

func newTenants(all []Tenant, decodes int) []tenant {
	out := make([]tenant, len(all))
	for i, t := range all {
		out[i] = tenant{Tenant: t, booked: make([]int64, decodes)}
	}
	return out
}

func (c *Serving) tenantOf(f *flight) *tenant { return &c.tenants[f.req.Tenant] }

// tellAll applies a report of an instance or the operator to the state of every tenant.
func (c *Serving) tellAll(report func(*scheduler.State)) {
	for i := range c.tenants {
		report(c.tenants[i].State)
	}
}

// showArrived adds an arrived request to the state of the other tenants.
func (c *Serving) showArrived(f *flight) {
	for i := range c.tenants {
		if i != f.req.Tenant {
			c.tenants[i].State.Arrived(f.decode, f.req.PromptTokens)
		}
	}
}

// oldestHeld returns the tenant with the oldest first held request, among those that are not
// blocked; nil if there is none.
func (c *Serving) oldestHeld() *tenant {
	var first *tenant
	for i := range c.tenants {
		t := &c.tenants[i]
		if !t.blocked && len(t.held) > 0 && (first == nil || t.held[0] < first.held[0]) {
			first = t
		}
	}
	return first
}

func (c *Serving) heldCount() int {
	n := 0
	for i := range c.tenants {
		n += len(c.tenants[i].held)
	}
	return n
}

// bookedAt reports whether any tenant waits for an instance's answer.
func (c *Serving) bookedAt(decode int) bool {
	for i := range c.tenants {
		if c.tenants[i].booked[decode] != 0 {
			return true
		}
	}
	return false
}
