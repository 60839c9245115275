package scheduler

import (
	"math"
	"slices"
)

// maxCongestion is the largest congestion: a tier that telemetry reports as full still moves some
// bytes, and no cost becomes infinite.
const maxCongestion = 0.99

// State mirrors the cluster for the policies: load, memory and prefix cache of each decode
// instance, transfers in flight, and the oracle. Make it with NewState. The caller reports each
// change:
//
//	Begin          a decision was taken (Algorithm 1, line 12)
//	TransferEnded  its transfer completed or failed
//	Admitted       the request joined the decode batch
//	Finished       it left the batch: last token, or cancelled there
//	Arrived        a request that never began here was reported: another scheduler's
//	Abandoned      the request ended before it joined the batch
//	SetFree, Stored, Evicted, SetAlive, SetCongestion  reports from engines and operator
//
// q_d counts every request that was assigned to d and is not in its batch: those that wait there,
// and those whose KV cache is still on its way. An engine's own queue length does not contain the
// latter; a router that used it would send a burst of requests to one instance until the first
// bytes arrive there (seen in ai-dynamo/dynamo#589). For the same reason the memory of an assigned
// request is reserved at once.
//
// Methods that report a change return false, and change nothing, when an index is out of range or a
// counter is 0 already: counters never go below 0, and a caller that counts twice can notice. A
// State is not safe for concurrent use.
type State struct {
	instances
	inFlight []int32 // [prefill*Tiers+tier]
	depth    []int32 // scratch: leading blocks held, by decode instance
	scratch  chooser
}

// NewState checks the options and returns the state of an idle, empty cluster.
// The error names field, value and range.
func NewState(o Options) (*State, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Oracle.Tier = slices.Clone(o.Oracle.Tier)
	s := &State{
		instances: instances{o: o, loads: make([]load, o.Decodes), prefix: newIndex(o.Decodes)},
		inFlight:  make([]int32, o.Prefills*Tiers),
		depth:     make([]int32, o.Decodes),
		scratch:   chooser{ties: make([]int32, 0, o.Decodes)},
	}
	for d := range s.loads {
		s.loads[d].free = o.MemoryBytes
	}
	s.SetCongestion(o.Oracle.Congestion)
	return s, nil
}

// SetCongestion replaces the oracle's congestion map. Values are clamped to [0, 0.99]; NaN, no
// reading, counts as 0.
func (s *State) SetCongestion(c [Tiers]float64) {
	for t, v := range c {
		if math.IsNaN(v) {
			v = 0
		}
		s.o.Oracle.Congestion[t] = min(max(v, 0), maxCongestion)
	}
}

// Begin records a decision: one transfer in flight from r.Prefill on d.Tier (line 12 of Algorithm
// 1; the cap applies where n is used, so counters stay exact), one place in d.Decode's queue, and
// the memory that the reservation will take, until the engine's next report through SetFree.
func (s *State) Begin(r *Request, d Decision) bool {
	if !s.has(d.Decode) || !s.o.inRange(r) || d.Tier < 0 || d.Tier >= Tiers {
		return false
	}
	s.inFlight[r.Prefill*Tiers+d.Tier]++
	l := &s.loads[d.Decode]
	l.free = max(l.free-s.o.need(r, d.HitTokens), 0)
	return s.move(d.Decode, r.PromptTokens, 1, 0)
}

// TransferEnded releases the in-flight counter of a transfer that completed or failed; false when
// none is in flight. It takes the decode instance only to detect a caller's mistake; the counter is
// per prefill and tier.
func (s *State) TransferEnded(prefill, decode, tier int) bool {
	if !s.has(decode) || s.InFlight(tier, prefill) == 0 {
		return false
	}
	s.inFlight[prefill*Tiers+tier]--
	return true
}

// InFlight returns the transfers in flight from a prefill instance on a tier, not capped; 0 out of range.
func (s *State) InFlight(tier, prefill int) int {
	if !s.o.hasPrefill(prefill) || tier < 0 || tier >= Tiers {
		return 0
	}
	return int(s.inFlight[prefill*Tiers+tier])
}

// instances mirrors the decode instances. Its methods are a State's.
type instances struct {
	o      Options
	loads  []load
	prefix *index
}

// load is what is known about one decode instance.
type load struct {
	queued  int   // q_d
	batch   int   // beta_d
	context int64 // prompt tokens of the batch
	blocks  int64 // prompt blocks of queue and batch
	free    int64 // m_d
	dead    bool
}

// active returns q_d + beta_d.
func (l *load) active() int { return l.queued + l.batch }

func (m *instances) has(decode int) bool { return decode >= 0 && decode < len(m.loads) }

// move adds a request to the queue and to the batch of a decode instance (1), or removes it there (-1).
func (m *instances) move(decode, promptTokens, queue, batch int) bool {
	if !m.has(decode) || m.loads[decode].queued+queue < 0 || m.loads[decode].batch+batch < 0 {
		return false
	}
	l := &m.loads[decode]
	l.queued += queue
	l.batch += batch
	l.context = max(l.context+int64(batch*promptTokens), 0)
	l.blocks = max(l.blocks+int64(queue+batch)*m.o.blocks(promptTokens), 0)
	return true
}

// Admitted moves a request from the queue of a decode instance to the instance's batch.
// promptTokens is the request's PromptTokens here and in the three methods below.
func (m *instances) Admitted(decode, promptTokens int) bool {
	return m.move(decode, promptTokens, -1, 1)
}

// Finished removes a request from the batch, whether it has all its tokens or not.
func (m *instances) Finished(decode, promptTokens int) bool {
	return m.move(decode, promptTokens, 0, -1)
}

// Abandoned removes a request that never joined the batch from the queue.
func (m *instances) Abandoned(decode, promptTokens int) bool {
	return m.move(decode, promptTokens, -1, 0)
}

// Arrived puts a request that this scheduler did not place in a decode instance's queue: another
// scheduler sends there too, and the instance now reports the request as waiting. From then on
// report it like the scheduler's own: Admitted, Finished, Abandoned.
func (m *instances) Arrived(decode, promptTokens int) bool {
	return m.move(decode, promptTokens, 1, 0)
}

// SetFree mirrors the engine's report of its free memory in bytes, evictable cache included,
// clamped to 0 up to MemoryBytes. It replaces what Begin reserved. A report that was sent before
// the reservation reached the engine overstates m_d until the next one; the engine's answer to the
// reservation decides.
func (m *instances) SetFree(decode int, bytes int64) bool {
	if !m.has(decode) {
		return false
	}
	m.loads[decode].free = min(max(bytes, 0), m.o.MemoryBytes)
	return true
}

// SetAlive excludes a lost decode instance from every choice (false) or includes it again (true).
// false empties its prefix cache. The caller, which knows the instance's requests, must still
// report the end of each.
func (m *instances) SetAlive(decode int, alive bool) bool {
	if !m.has(decode) {
		return false
	}
	m.loads[decode].dead = !alive
	if !alive {
		m.prefix.forget(decode)
	}
	return true
}

// Stored records that a decode instance holds blocks in its prefix cache. A second call changes nothing.
func (m *instances) Stored(decode int, blocks []uint64) bool {
	if !m.has(decode) {
		return false
	}
	for _, b := range blocks {
		m.prefix.add(decode, b)
	}
	return true
}

// Evicted records that a decode instance no longer holds blocks. It ignores blocks that it did not hold.
func (m *instances) Evicted(decode int, blocks []uint64) bool {
	if !m.has(decode) {
		return false
	}
	for _, b := range blocks {
		m.prefix.remove(decode, b)
	}
	return true
}

func (m *instances) load(decode int) load {
	if !m.has(decode) {
		return load{}
	}
	return m.loads[decode]
}

// Queued returns q_d: requests assigned to the instance and not in its batch; 0 out of range.
func (m *instances) Queued(decode int) int { return m.load(decode).queued }

// Batch returns beta_d, the sequences in the batch; 0 out of range.
func (m *instances) Batch(decode int) int { return m.load(decode).batch }

// Free returns m_d in bytes; 0 out of range.
func (m *instances) Free(decode int) int64 { return m.load(decode).free }

// Alive reports whether the instance can be chosen.
func (m *instances) Alive(decode int) bool { return m.has(decode) && !m.loads[decode].dead }

// HitTokens returns lambda: how many tokens of the prompt the instance holds, min(PromptTokens,
// leading blocks held x BlockTokens). A last partial block counts when its id is held, so a full
// hit is exactly PromptTokens and leaves nothing to move. 0 out of range.
func (m *instances) HitTokens(r *Request, decode int) int {
	if !m.has(decode) {
		return 0
	}
	return m.o.tokens(r, m.prefix.depth(decode, r.Blocks))
}

// Usable returns the KV memory of a decode instance in whole blocks, in bytes: what an idle
// instance can give.
func (m *instances) Usable() int64 { return m.o.MemoryBytes / m.o.blockBytes() * m.o.blockBytes() }

// Footprint returns what a request takes of an instance's memory, in bytes: prompt and output, each
// in whole blocks, whether the cache holds some of them or not. A request that is larger than
// Usable never fits.
func (m *instances) Footprint(r *Request) int64 {
	return (m.o.blocks(r.PromptTokens) + m.o.blocks(r.OutputTokens)) * m.o.blockBytes()
}
