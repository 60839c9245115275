package packetworld_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/internal/flowworld"
	"github.com/netkvlab/netkvlab/internal/packetworld"
	"github.com/netkvlab/netkvlab/internal/results"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/kvagent/engine"
	"github.com/netkvlab/netkvlab/scenarios"
)

// twin is a cluster of scripted agents: the real engines on the bubble's clock, and a
// network that gives a lone transfer what the fluid model gives it.
type twin struct {
	mu    sync.Mutex
	start time.Time
	plan  *fabric.Plan
	rates [4]float64 // payload bytes per second of one path
	cfg   flowworld.Config
	at    map[string]*scripted
}

// scripted is one agent.
type scripted struct {
	c       *twin
	node    fabric.NodeID
	prefill *engine.Prefill
	decode  *engine.Decode
	attempt map[uint64]uint32
	events  chan *control.Event
}

func (c *twin) now() time.Duration { return time.Since(c.start) }

func (s *scripted) Events() <-chan *control.Event { return s.events }
func (s *scripted) Err() error                    { return nil }
func (s *scripted) Close() error                  { return nil }

// Send does what a command says at once.
func (s *scripted) Send(cmd *control.Command) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	now := s.c.now()
	switch x := cmd.GetCommand().(type) {
	case *control.Command_Prefill:
		if err := s.prefill.Submit(now, x.Prefill.GetRequest(), int(x.Prefill.GetTokens())); err != nil {
			return err
		}
	case *control.Command_Reserve:
		r := x.Reserve
		hit, err := s.decode.Reserve(now, engine.Reservation{
			ID: r.GetRequest(), PromptTokens: int(r.GetPromptTokens()), OutputTokens: int(r.GetOutputTokens()), Blocks: r.GetBlocks(),
		})
		s.attempt[r.GetRequest()] = r.GetAttempt()
		s.tell(now, r.GetRequest(), r.GetAttempt(), &control.Event{Event: &control.Event_Reserved{Reserved: &control.Reserved{
			Ok: err == nil, HitTokens: int64(hit), FreePaperBytes: s.decode.FreeBytes(),
		}}})
	case *control.Command_Transfer:
		s.transfer(now, x.Transfer)
	}
	s.settle()
	return nil
}

// transfer runs at both ends; the receiver's end knows when the last byte arrives.
func (s *scripted) transfer(now time.Duration, t *control.Transfer) {
	if !t.GetReceive() {
		s.tell(now, t.GetRequest(), t.GetAttempt(), &control.Event{Event: &control.Event_TransferSent{
			TransferSent: &control.TransferSent{StartPaperNs: int64(now)},
		}})
		return
	}
	tier := s.c.plan.Tier(s.c.at[t.GetPeer()].node, s.node)
	var bytes int64
	for _, st := range t.GetStreams() {
		bytes += st.GetBytes()
	}
	took := time.Duration(0)
	if bytes > 0 {
		paper := float64(bytes) * s.c.plan.Scale.Rate
		took = s.c.cfg.Latency[tier] + time.Duration(paper/s.c.rates[tier]*1e9+0.5)
	}
	time.AfterFunc(took, func() {
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		at := now + took
		_ = s.decode.Arrive(at, t.GetRequest()) // refused only for a request that was given up
		s.tell(at, t.GetRequest(), t.GetAttempt(), &control.Event{Event: &control.Event_TransferDone{TransferDone: &control.TransferDone{Bytes: bytes}}})
		s.settle()
	})
}

func (s *scripted) tell(at time.Duration, request uint64, attempt uint32, e *control.Event) {
	e.Request, e.Attempt, e.AtPaperNs = request, attempt, int64(at)
	s.events <- e
}

// settle reports what the engine has done and sets an alarm for what it does next.
func (s *scripted) settle() {
	var next time.Duration
	var ok bool
	if s.prefill != nil {
		for _, e := range s.prefill.Advance(s.c.now()) {
			ev := &control.Event{Event: &control.Event_PrefillStarted{PrefillStarted: &control.PrefillStarted{}}}
			if e.Kind == engine.PrefillDone {
				ev = &control.Event{Event: &control.Event_PrefillDone{PrefillDone: &control.PrefillDone{}}}
			}
			s.tell(e.At, e.ID, 0, ev)
		}
		next, ok = s.prefill.Next()
	} else {
		for _, e := range s.decode.Advance(s.c.now()) {
			s.tell(e.At, e.ID, s.attempt[e.ID], decodeEvent(e))
		}
		next, ok = s.decode.Next()
	}
	if ok {
		time.AfterFunc(next-s.c.now(), func() {
			s.c.mu.Lock()
			defer s.c.mu.Unlock()
			s.settle()
		})
	}
}

func decodeEvent(e engine.DecodeEvent) *control.Event {
	switch e.Kind {
	case engine.Admitted:
		return &control.Event{Event: &control.Event_Admitted{Admitted: &control.Admitted{}}}
	case engine.FirstToken:
		return &control.Event{Event: &control.Event_FirstToken{FirstToken: &control.FirstToken{}}}
	case engine.Finished:
		return &control.Event{Event: &control.Event_Finished{Finished: &control.Finished{FreePaperBytes: e.FreeBytes}}}
	}
	return &control.Event{Event: &control.Event_Cache{Cache: &control.CacheChange{
		Stored: e.Stored, Evicted: e.Evicted, FreePaperBytes: e.FreeBytes,
	}}}
}

// twinScenario is the paper's cluster with so few requests that transfers never meet.
func twinScenario(t *testing.T, more ...string) *scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Load("paper-64gpu", append(more, "workload.synthetic.requests=25", "workload.synthetic.rate=0.005/s",
		"workload.synthetic.output.mean=20", "workload.synthetic.prefix.groups=2", "transfer.streams=1", "scale.rate=1")...)
	require.NoError(t, err)
	return s
}

// TestTheSameControlPlaneRunsInBothWorlds drives the packet world's trial and the
// flow world with networks of equal behaviour and expects equal decisions and records.
func TestTheSameControlPlaneRunsInBothWorlds(t *testing.T) {
	for _, policy := range []string{"rr", "random", "cla", "llmd", "dynamo", "netkv-topo", "netkv-full"} {
		t.Run(policy, func(t *testing.T) { sameInBothWorlds(t, twinScenario(t), policy) })
	}
}

func TestTenantsDecideAlikeInBothWorlds(t *testing.T) {
	for _, policy := range []string{"rr", "cla", "netkv-full"} {
		t.Run(policy, func(t *testing.T) {
			seen := map[int]bool{}
			for _, r := range sameInBothWorlds(t, twinScenario(t, "workload.tenants=3"), policy) {
				seen[r.Tenant] = true
			}
			assert.Equal(t, map[int]bool{1: true, 2: true, 3: true}, seen)
		})
	}
}

// sameInBothWorlds plays a policy in both and returns the records, which must be equal.
func sameInBothWorlds(t *testing.T, s *scenarios.Scenario, policy string) []results.Record {
	t.Helper()
	cluster, err := trials.New(s)
	require.NoError(t, err)
	load, err := cluster.Load(1)
	require.NoError(t, err)
	want := inFlowWorld(t, cluster, policy, load)
	var got []results.Record
	synctest.Test(t, func(t *testing.T) { got = inPacketWorld(t, cluster, policy, load) })
	require.Len(t, got, len(want))
	for i := range want {
		want[i].Streams, got[i].Streams = nil, nil // scripted agents report none
		assert.Equal(t, want[i], got[i], "request %d", i)
	}
	return got
}

func trialOf(policy string) trials.Trial {
	return trials.Trial{World: "either", Policy: scenarios.NewPolicy(policy), Seed: 1}
}

func inFlowWorld(t *testing.T, c *trials.Cluster, policy string, l *trials.Load) []results.Record {
	d, err := c.Driver(trialOf(policy), l)
	require.NoError(t, err)
	cfg := trials.Flow{Cluster: c}.Config(1)
	cfg.Refresh = 0 // nothing polls here
	w, err := flowworld.New(cfg)
	require.NoError(t, err)
	require.NoError(t, w.Run(t.Context(), d))
	return d.Records()
}

func inPacketWorld(t *testing.T, cluster *trials.Cluster, policy string, l *trials.Load) []results.Record {
	d, err := cluster.Driver(trialOf(policy), l)
	require.NoError(t, err)
	plan := cluster.Plan
	c := &twin{start: time.Now(), plan: plan, cfg: trials.Flow{Cluster: cluster}.Config(1), at: map[string]*scripted{}}
	for tier, r := range plan.TierBandwidth() {
		c.rates[tier] = r.BytesPerSecond()
	}
	tr := &packetworld.Trial{Driver: d, TimeScale: 1, Now: func() int64 { return int64(c.now()) }}
	for i, id := range plan.Prefill {
		p, err := engine.NewPrefill(c.cfg.Prefill)
		require.NoError(t, err)
		tr.Members = append(tr.Members, c.member(id, i, -1, &scripted{prefill: p}))
	}
	for i, id := range plan.Decode {
		e, err := engine.NewDecode(*c.cfg.Decode)
		require.NoError(t, err)
		tr.Members = append(tr.Members, c.member(id, -1, i, &scripted{decode: e}))
	}
	require.NoError(t, tr.Run(t.Context()))
	return d.Records()
}

func (c *twin) member(id fabric.NodeID, prefill, decode int, s *scripted) packetworld.Member {
	s.c, s.node, s.attempt, s.events = c, id, map[uint64]uint32{}, make(chan *control.Event, 1000)
	name := c.plan.Nodes[id].Name
	c.at[name] = s
	return packetworld.Member{Node: name, Prefill: prefill, Decode: decode, Session: s}
}
