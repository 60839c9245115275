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
	models []*engine.Prefill
	model  engine.PrefillConfig
	tokens []int           // outstanding prompt tokens
	until  []time.Duration // when the queue of each will be empty
	jobs   []map[uint64]int
	down   []bool
}

func newPrefillPool(n int, cfg engine.PrefillConfig) (*prefillPool, error) {
	p := &prefillPool{model: cfg, until: make([]time.Duration, n), tokens: make([]int, n), down: make([]bool, n)}
	for i := range n {
		m, err := engine.NewPrefill(cfg)
		if err != nil {
			return nil, fmt.Errorf("prefill instance %d: %w", i, err)
		}
		p.models = append(p.models, m)
		p.jobs = append(p.jobs, map[uint64]int{})
	}
	return p, nil
}

// choose picks the instance with the fewest outstanding tokens at the given time, and adds the
// prompt to it. The request's own draw decides between equals.
func (p *prefillPool) choose(at time.Duration, r *workload.Request) (int, bool) {
	best, ties := -1, 0
	for i := range p.models {
		if p.down[i] {
			continue
		}
		p.settle(i, at)
		switch {
		case best < 0 || p.tokens[i] < p.tokens[best]:
			best, ties = i, 1
		case p.tokens[i] == p.tokens[best]:
			ties++
		}
	}
	if best < 0 {
		return 0, false
	}
	least, skip := p.tokens[best], int(prefillDraw(r)%uint64(ties))
	for i := best; ; i++ {
		if p.down[i] || p.tokens[i] != least {
			continue
		}
		if skip == 0 {
			best = i
			break
		}
		skip--
	}
	id := uint64(r.ID)
	if err := p.models[best].Submit(at, id, r.PromptTokens); err != nil {
		return 0, false
	}
	p.jobs[best][id] = r.PromptTokens
	p.tokens[best] += r.PromptTokens
	return best, true
}

// finish is when the model finishes a prompt that was just added.
func (p *prefillPool) finish(i int, at time.Duration, tokens int) time.Duration {
	start := at
	if p.model.Mode != engine.Delay {
		start = max(at, p.until[i])
	}
	p.until[i] = start + p.model.Model.Prefill(tokens)
	return p.until[i]
}

// forget removes a prompt that will not be finished from an instance.
func (p *prefillPool) forget(i int, at time.Duration, r *workload.Request) {
	p.settle(i, at)
	id := uint64(r.ID)
	if p.models[i].Cancel(at, id) {
		p.tokens[i] -= p.jobs[i][id]
		delete(p.jobs[i], id)
	}
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

// settle removes the prompts that the model has finished by now.
func (p *prefillPool) settle(i int, now time.Duration) {
	for _, ev := range p.models[i].Advance(now) {
		if ev.Kind == engine.PrefillDone {
			p.tokens[i] -= p.jobs[i][ev.ID]
			delete(p.jobs[i], ev.ID)
		}
	}
}
