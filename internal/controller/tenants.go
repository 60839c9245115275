package controller

import (
	"fmt"

	"github.com/netkvlab/netkvlab/scheduler"
)

// Tenant is one scheduler of a trial and the view of the cluster that it decides by. Tenants
// share the instances, the network and the oracle. Prefill instances are chosen for all
// of them alike: the tenants part where a decode instance is chosen.
//
// To its own tenant a request is known from the decision on: it is in flight, in the queue
// of the decode instance, and its memory is booked. To the others it does not exist until
// that instance reports it: as waiting, when its last byte has arrived, then as
// part of the batch. Reports of free memory and cached blocks, the loss of an instance and
// the oracle's congestion reach all. A transfer in flight shows to no other tenant, not
// even in the congestion where own traffic is left out of it: it is the
// class of all KV traffic that is left out.
type Tenant struct {
	Scheduler scheduler.Policy
	State     *scheduler.State // fresh, of the same instances, and nobody else's
}

// tenant is a Tenant and what waits for it.
type tenant struct {
	Tenant
	held    []int   // requests without a feasible decode instance, FIFO
	blocked bool    // of retryHeld: the first of them does not fit
	booked  []int64 // per decode: asked for and not yet answered
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

// tellAll tells every tenant what an instance or the operator has reported.
func (c *Serving) tellAll(report func(*scheduler.State)) {
	for i := range c.tenants {
		report(c.tenants[i].State)
	}
}

// showArrived shows a request to the tenants that have not known of it.
func (c *Serving) showArrived(f *flight) {
	for i := range c.tenants {
		if i != f.req.Tenant {
			c.tenants[i].State.Arrived(f.decode, f.req.PromptTokens)
		}
	}
}

// oldestHeld is the tenant whose first held request came first, among those that are not
// blocked; nil where none is left.
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
