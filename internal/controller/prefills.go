package controller

import (
	"fmt"
	"time"

	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/kvagent/engine"
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
