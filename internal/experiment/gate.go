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
	passed  int // how often it has opened; in odd states trials are under way
	// begin and end are called when trials begin, and when the last has ended.
	begin, end func()
}

func newGate(members int, begin, end func()) *gate {
	g := &gate{members: members, begin: begin, end: end}
	g.opened.L = &g.mu
	return g
}

// wait returns when all members are there. Nil waits for nobody.
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
	if g.members == 0 && g.passed%2 == 1 { // the last left in the middle of its trial
		g.passed++
		g.end()
	}
	g.lockedOpen()
}

func (g *gate) lockedOpen() {
	if g.arrived == 0 || g.arrived < g.members {
		return
	}
	g.arrived = 0
	if g.passed++; g.passed%2 == 1 {
		g.begin()
	} else {
		g.end()
	}
	g.opened.Broadcast()
}
