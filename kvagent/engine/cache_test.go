package engine

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ids(from, to uint64) []uint64 {
	var out []uint64
	for id := from; id <= to; id++ {
		out = append(out, id)
	}
	return out
}

func cachedBlocks(d *Decode) []uint64 { return slices.Sorted(maps.Keys(d.cache.entries)) }

// Only missing blocks must be moved, block-aligned; a full hit moves nothing
// even when the prompt does not end at a block's edge.
func TestPrefixHits(t *testing.T) {
	t.Parallel()
	const tokens = 19*512 + 100 // 20 blocks, the last partial
	tests := []struct {
		name   string
		prompt int
		blocks []uint64
		hit    int
	}{
		{"20 of 20 equal blocks", 20 * 512, ids(1, 20), 20 * 512},
		{"10 of 20 equal blocks", 20 * 512, append(ids(1, 10), ids(101, 110)...), 10 * 512},
		{"all held, length no multiple of 512", tokens, ids(1, 20), tokens},
		{"the first block differs", 20 * 512, append([]uint64{99}, ids(2, 20)...), 0},
		{"no block ids", tokens, nil, 0},
		{"fewer ids than blocks", tokens, ids(1, 3), 3 * 512},
		{"a longer prompt with the same start", 30 * 512, ids(1, 30), 20 * 512},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := mustDecode(t, DecodeConfig{Model: paperFit, MaxBatch: 4, MemoryBytes: 100e9, KVBytesPerToken: 327_680, BlockTokens: 512})
			assert.Zero(t, bring(t, d, 0, Reservation{ID: 1, PromptTokens: 20 * 512, OutputTokens: 2, Blocks: ids(1, 20)}))
			assert.Equal(t, tt.hit, bring(t, d, 0, Reservation{ID: 2, PromptTokens: tt.prompt, OutputTokens: 2, Blocks: tt.blocks}))
			d.Advance(time.Hour)
			assert.Equal(t, min(tt.prompt, 512*len(tt.blocks)),
				bring(t, d, time.Hour, Reservation{ID: 3, PromptTokens: tt.prompt, OutputTokens: 2, Blocks: tt.blocks}),
				"once it has finished, its whole prompt stays cached")
		})
	}
}

func TestBlocksBecomeVisibleOnArrival(t *testing.T) {
	t.Parallel()
	d := mustDecode(t, small(step30, 4))
	_, err := d.Reserve(0, Reservation{ID: 1, PromptTokens: 8, OutputTokens: 1, Blocks: ids(1, 2)})
	require.NoError(t, err)
	hit, err := d.Reserve(0, Reservation{ID: 2, PromptTokens: 12, OutputTokens: 1, Blocks: ids(1, 3)})
	require.NoError(t, err)
	assert.Zero(t, hit, "bytes on their way are no hit")
	assert.Equal(t, int64(640-120-160), d.FreeBytes())
	assert.Zero(t, d.Cached())

	require.NoError(t, d.Arrive(0, 1))
	assert.Equal(t, ids(1, 2), cachedBlocks(d))
	require.NoError(t, d.Arrive(0, 2))
	assert.Equal(t, ids(1, 3), cachedBlocks(d))
	assert.Equal(t, int64(640-3*40-2*40), d.FreeBytes(), "the second copy of blocks 1 and 2 is dropped")

	events := d.Advance(0)
	require.Equal(t, []DecodeKind{CacheChanged, Admitted, CacheChanged, Admitted}, []DecodeKind{events[0].Kind, events[1].Kind, events[2].Kind, events[3].Kind})
	assert.Equal(t, ids(1, 2), events[0].Stored)
	assert.Equal(t, []uint64{3}, events[2].Stored)
	assert.Equal(t, int64(440), events[2].FreeBytes)
}

func TestEvictionTakesTheOldestLeafFirst(t *testing.T) {
	t.Parallel()
	d := mustDecode(t, small(step30, 4)) // 16 blocks
	bring(t, d, 0, Reservation{ID: 1, PromptTokens: 16, OutputTokens: 1, Blocks: ids(1, 4)})
	d.Advance(time.Second)
	bring(t, d, time.Second, Reservation{ID: 2, PromptTokens: 16, OutputTokens: 1, Blocks: []uint64{1, 2, 13, 14}})
	d.Advance(2 * time.Second)
	require.Equal(t, []uint64{1, 2, 3, 4, 13, 14}, cachedBlocks(d))

	// 10 blocks are empty; 13 need three evictions: the branch used longest ago from its end, then the end of the other.
	_, err := d.Reserve(2*time.Second, Reservation{ID: 3, PromptTokens: 48, OutputTokens: 4})
	require.NoError(t, err)
	events := d.Advance(2 * time.Second)
	require.Len(t, events, 1)
	assert.Equal(t, []uint64{4, 3, 14}, events[0].Evicted)
	assert.Equal(t, []uint64{1, 2, 13}, cachedBlocks(d))
	assert.Equal(t, int64(120), d.FreeBytes())
}

func TestPinnedBlocksStay(t *testing.T) {
	t.Parallel()
	d := mustDecode(t, small(step30, 4))
	bring(t, d, 0, Reservation{ID: 1, PromptTokens: 48, OutputTokens: 4, Blocks: ids(1, 12)})
	_, err := d.Reserve(0, Reservation{ID: 2, PromptTokens: 12, OutputTokens: 4})
	var full *NoMemoryError
	require.ErrorAs(t, err, &full)
	assert.Equal(t, NoMemoryError{Need: 160, Free: 120, Capacity: 640}, *full)

	d.Advance(time.Second) // finished: 12 cached, none pinned
	assert.Equal(t, int64(640), d.FreeBytes())
	_, err = d.Reserve(time.Second, Reservation{ID: 3, PromptTokens: 48, OutputTokens: 17, Blocks: ids(1, 12)})
	require.ErrorAs(t, err, &full)
	assert.Equal(t, int64(17*40), full.Need, "hits that nobody pins count: the reservation would pin them")
	assert.Equal(t, 12, d.Cached(), "a refusal evicts nothing")
	hit, err := d.Reserve(time.Second, Reservation{ID: 3, PromptTokens: 48, OutputTokens: 16, Blocks: ids(1, 12)})
	require.NoError(t, err)
	assert.Equal(t, 48, hit)
	assert.Zero(t, d.FreeBytes())
}

func TestReleaseKeepsOnlyWhatArrived(t *testing.T) {
	t.Parallel()
	d := mustDecode(t, small(step30, 1))
	_, err := d.Reserve(0, Reservation{ID: 1, PromptTokens: 8, OutputTokens: 1, Blocks: ids(1, 2)})
	require.NoError(t, err)
	assert.True(t, d.Release(0, 1))
	assert.Zero(t, d.Cached(), "no byte came")
	bring(t, d, 0, Reservation{ID: 2, PromptTokens: 8, OutputTokens: 1, Blocks: ids(1, 2)})
	assert.True(t, d.Release(0, 2))
	assert.Equal(t, 2, d.Cached())
	assert.Equal(t, int64(640), d.FreeBytes())
	events := d.Advance(0)
	assert.Equal(t, CacheChanged, events[len(events)-1].Kind)
	assert.Equal(t, int64(640), events[len(events)-1].FreeBytes)
}

func TestAnIDNamedTwiceIsOneBlock(t *testing.T) {
	t.Parallel()
	d := mustDecode(t, small(step30, 1))
	bring(t, d, 0, Reservation{ID: 1, PromptTokens: 12, OutputTokens: 1, Blocks: []uint64{5, 5, 5}})
	assert.Equal(t, []uint64{5}, cachedBlocks(d))
	assert.Equal(t, int64(640-80), d.FreeBytes())
	d.Advance(time.Second)
	assert.Equal(t, int64(640), d.FreeBytes())
	assert.Equal(t, 12, bring(t, d, time.Second, Reservation{ID: 2, PromptTokens: 12, OutputTokens: 1, Blocks: []uint64{5, 5, 5}}))
	d.Advance(time.Hour)
	assert.Equal(t, int64(640), d.FreeBytes())
}
