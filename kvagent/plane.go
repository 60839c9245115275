package kvagent

import (
	"context"
	"fmt"
)

// plane is the data plane of a configured agent. It exists longer than a session, so
// connections stay warm from trial to trial.
type plane struct {
	net   networkConfig
	count *counters
	inlet *inlet
	pool  *pool
	// congestion is the algorithm in force, read back from a listening socket.
	congestion string
}

func newPlane(ctx context.Context, n networkConfig) (*plane, error) {
	count := &counters{}
	in, err := newInlet(ctx, &n, count)
	if err != nil {
		return nil, err
	}
	p := &plane{net: n, count: count, inlet: in}
	p.pool = newPool(&p.net)
	if len(in.listeners) > 0 {
		if p.congestion, err = congestionInForce(in.listeners[0]); err != nil {
			p.close()
			return nil, fmt.Errorf("data plane: %w", err)
		}
	}
	return p, nil
}

func (p *plane) close() {
	p.pool.close()
	p.inlet.close()
}
