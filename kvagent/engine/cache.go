package engine

import "math"

// cache accounts for an instance's KV memory in blocks. A block is private (bytes under way, output, prompt without
// id) or it is in the prefix cache under its id. There it is pinned by the requests that use it or, with no pin,
// evictable:
//
//	free + private + pinned + evictable = capacity
//
// Evictable blocks form a list, the least recently used first. A request unpins its chain from the end to the start,
// and a request that pins a block pins all blocks before it. So a block is always in the list before its parent, and
// evicting from the front keeps the cached set prefix-closed.
type cache struct {
	blockTokens int
	blockBytes  int64
	capacity    int64
	private     int64
	evictable   int64
	entries     map[uint64]*block
	lru         block // sentinel of the ring
}

type block struct {
	id         uint64
	pins       int
	prev, next *block // in the ring while evictable
}

func newCache(memoryBytes, bytesPerToken int64, blockTokens int) *cache {
	c := &cache{blockTokens: blockTokens, blockBytes: int64(blockTokens) * bytesPerToken, entries: make(map[uint64]*block)}
	c.capacity = memoryBytes / c.blockBytes
	c.lru.prev, c.lru.next = &c.lru, &c.lru
	return c
}

// blocksFor returns ceil(tokens / blockTokens).
func (c *cache) blocksFor(tokens int) int64 {
	return (int64(tokens) + int64(c.blockTokens) - 1) / int64(c.blockTokens)
}

// bytes converts blocks, saturating: a request may ask for more than any memory.
func (c *cache) bytes(blocks int64) int64 {
	if blocks > math.MaxInt64/c.blockBytes {
		return math.MaxInt64
	}
	return blocks * c.blockBytes
}

// free returns the number of blocks that neither a request nor the cache holds.
func (c *cache) free() int64 { return c.capacity - c.private - int64(len(c.entries)) }

// available returns the blocks that a reservation could get.
func (c *cache) available() int64 { return c.free() + c.evictable }

// hits returns how many leading blocks are cached, and how many different ones among them are evictable: pinned
// blocks are no longer available.
func (c *cache) hits(ids []uint64) (n int, evictable int64) {
	for _, id := range ids {
		b, ok := c.entries[id]
		if !ok {
			break
		}
		if b.pins == 0 {
			b.pins = -1 // counted already if the id occurs twice; undone below
			evictable++
		}
		n++
	}
	for _, id := range ids[:n] {
		if b := c.entries[id]; b.pins == -1 {
			b.pins = 0
		}
	}
	return n, evictable
}

// reserve gives a request this number of blocks: it pins those leading ones that are cached and takes the rest as
// private blocks, for which it evicts as many as that needs. It returns the evicted ids, oldest first, or a
// *NoMemoryError, and then nothing has changed.
func (c *cache) reserve(q *request, blocks int64) (evicted []uint64, err error) {
	hits, unpinned := c.hits(q.blocks)
	private := blocks - int64(hits)
	if need := private + unpinned; need > c.available() {
		return nil, &NoMemoryError{Need: c.bytes(need), Free: c.bytes(c.available()), Capacity: c.bytes(c.capacity)}
	}
	for _, id := range q.blocks[:hits] {
		c.pin(id)
	}
	for c.free() < private {
		b := c.lru.next
		c.unlink(b)
		delete(c.entries, b.id)
		evicted = append(evicted, b.id)
	}
	c.private += private
	q.pinned, q.private = hits, private
	return evicted, nil
}

// store turns the private prompt blocks of a request into cached ones, pinned, and returns the new ids in prompt
// order. Of a block that is cached by now, the private copy is dropped.
func (c *cache) store(q *request) (stored []uint64) {
	fresh := q.blocks[q.pinned:]
	for _, id := range fresh {
		if c.entries[id] != nil {
			c.pin(id)
			continue
		}
		c.entries[id] = &block{id: id, pins: 1}
		stored = append(stored, id)
	}
	c.private -= int64(len(fresh))
	q.private -= int64(len(fresh))
	q.pinned = len(q.blocks)
	return stored
}

// release returns a request's memory: private blocks become free, and each of its cached ones loses a pin, the last
// first. Blocks without pins become the most recently used.
func (c *cache) release(q *request) {
	c.private -= q.private
	for i := q.pinned - 1; i >= 0; i-- {
		b := c.entries[q.blocks[i]]
		b.pins--
		if b.pins == 0 {
			b.prev, b.next = c.lru.prev, &c.lru
			b.prev.next, c.lru.prev = b, b
			c.evictable++
		}
	}
}

// pin adds a pin to a cached block, which keeps it from eviction.
func (c *cache) pin(id uint64) {
	b := c.entries[id]
	if b.pins == 0 {
		c.unlink(b)
	}
	b.pins++
}

func (c *cache) unlink(b *block) {
	b.prev.next, b.next.prev = b.next, b.prev
	b.prev, b.next = nil, nil
	c.evictable--
}
