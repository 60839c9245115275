package engine

// cache accounts for an instance's KV memory in blocks. A block is private
// (bytes under way, output, prompt without id) or it is in the prefix cache
// under its id. There it is pinned by the requests that use it or, with no pin, evictable:
//
//	free + private + pinned + evictable = capacity
//
// Evictable blocks form a list, the least recently used first. A request
// unpins its chain from the end to the start, and a request that pins a block pins
// all blocks before it. So a block is always in the list before its parent, and
// evicting from the front keeps the cached set prefix-closed.
type cache struct {
	capacity  int64
	private   int64
	evictable int64
	entries   map[uint64]*block
	lru       block // sentinel of the ring
}

type block struct {
	id         uint64
	pins       int
	prev, next *block // in the ring while evictable
}

func newCache(capacity int64) *cache {
	c := &cache{capacity: capacity, entries: make(map[uint64]*block)}
	c.lru.prev, c.lru.next = &c.lru, &c.lru
	return c
}

// free returns the number of blocks that neither a request nor the cache holds.
func (c *cache) free() int64 { return c.capacity - c.private - int64(len(c.entries)) }

// available returns the blocks that a reservation could get.
func (c *cache) available() int64 { return c.free() + c.evictable }

// hits returns how many leading blocks are cached, and how many different ones
// among them are evictable: pinned blocks are no longer available.
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

// pin adds a pin to a cached block, which keeps it from eviction.
func (c *cache) pin(id uint64) {
	b := c.entries[id]
	if b.pins == 0 {
		c.unlink(b)
	}
	b.pins++
}

// unpinAll takes one pin from each block, the last first. Blocks without pins become the most recently used.
func (c *cache) unpinAll(ids []uint64) {
	for i := len(ids) - 1; i >= 0; i-- {
		b := c.entries[ids[i]]
		b.pins--
		if b.pins == 0 {
			b.prev, b.next = c.lru.prev, &c.lru
			b.prev.next, c.lru.prev = b, b
			c.evictable++
		}
	}
}

// settle turns one private block into the cached block id, pinned, and reports
// true. When the id is cached by now, the private copy is dropped for it.
func (c *cache) settle(id uint64) bool {
	c.private--
	if _, ok := c.entries[id]; ok {
		c.pin(id)
		return false
	}
	c.entries[id] = &block{id: id, pins: 1}
	return true
}

// allocate takes n private blocks, evicting as many as that needs, and returns
// the evicted ids, oldest first. The caller has checked available.
func (c *cache) allocate(n int64) (evicted []uint64) {
	for c.free() < n {
		b := c.lru.next
		c.unlink(b)
		delete(c.entries, b.id)
		evicted = append(evicted, b.id)
	}
	c.private += n
	return evicted
}

func (c *cache) unlink(b *block) {
	b.prev.next, b.next.prev = b.next, b.prev
	b.prev, b.next = nil, nil
	c.evictable--
}
