package experiment

import "sync"

// gate keeps lanes in step: they begin a trial together and go on to what follows it
// together, so that what one does before or after its trial takes no CPU from another's.
// A lane that has no more to do leaves, and is not waited for.
type gate struct {
	mu      sync.Mutex
	opened  sync.Cond
	members int
	arrived int
	passed  int // how often it has opened
}

func newGate(members int) *gate {
	g := &gate{members: members}
	g.opened.L = &g.mu
	return g
}

// wait returns when all members are there. Nil waits for none.
func (g *gate) wait() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived++
	at := g.passed
	g.lockedOpen()
	for g.passed == at {
		g.opened.Wait()
	}
}

// leave takes a member out.
func (g *gate) leave() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members--
	g.lockedOpen()
}

func (g *gate) lockedOpen() {
	if g.arrived == 0 || g.arrived < g.members {
		return
	}
	g.arrived = 0
	g.passed++
	g.opened.Broadcast()
}
