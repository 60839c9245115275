package scheduler

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// model is the simple index: a set of blocks per instance.
type model []map[uint64]bool

func newModel(n int) model {
	m := make(model, n)
	for d := range m {
		m[d] = map[uint64]bool{}
	}
	return m
}

func (m model) depth(d int, blocks []uint64) int {
	for i, b := range blocks {
		if !m[d][b] {
			return i
		}
	}
	return len(blocks)
}

// same checks every depth of a prompt, and the table's own laws.
func same(tb testing.TB, x *index, m model, blocks []uint64) {
	tb.Helper()
	depth := make([]int32, len(m))
	for d := range depth {
		depth[d] = -7 // whatever was there before
	}
	x.match(blocks, depth)
	for d := range m {
		require.Equal(tb, m.depth(d, blocks), int(depth[d]), "instance %d of %d", d, len(m))
		require.Equal(tb, int(depth[d]), x.depth(d, blocks))
	}
	distinct := map[uint64]bool{}
	for _, held := range m {
		for b := range held {
			distinct[b] = true
		}
	}
	require.Len(tb, distinct, x.used)
	require.LessOrEqual(tb, 2*x.used, len(x.keys))
	require.Equal(tb, x.used+len(x.spare), len(x.count), "every row is used or spare")
}

func TestIndexEqualsItsModel(t *testing.T) {
	t.Parallel()
	for _, decodes := range []int{1, 63, 64, 65, 130} {
		x, m := newIndex(decodes), newModel(decodes)
		rng := rand.New(rand.NewPCG(uint64(decodes), 5))
		for step := range 6000 {
			d, b := rng.IntN(decodes), uint64(rng.IntN(900))
			switch rng.IntN(5) {
			case 0, 1, 2:
				for i := range b % 40 { // a chain
					x.add(d, b/40*40+i)
					m[d][b/40*40+i] = true
				}
			case 3:
				x.remove(d, b)
				delete(m[d], b)
			case 4:
				if rng.IntN(50) == 0 {
					x.forget(d)
					clear(m[d])
				}
			}
			if step%50 == 0 {
				var blocks []uint64
				for i := range uint64(rng.IntN(45)) {
					blocks = append(blocks, b/40*40+i)
				}
				same(t, x, m, blocks)
			}
		}
	}
}

func TestIndexGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	x, m := newIndex(3), newModel(3)
	var all []uint64
	for i := range uint64(20_000) {
		b := i << 32 // ids that differ in high bits only
		all = append(all, b)
		x.add(1, b)
		m[1][b] = true
	}
	same(t, x, m, all)
	for _, b := range all {
		x.remove(1, b)
		delete(m[1], b)
	}
	same(t, x, m, all)
	rows := len(x.count)
	for _, b := range all {
		x.add(2, b)
		m[2][b] = true
	}
	same(t, x, m, all)
	require.Len(t, x.count, rows, "rows are used again")
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 1, 0, 2, 0, 2, 1, 1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		const decodes = 66
		x, m := newIndex(decodes), newModel(decodes)
		var said []uint64
		for ; len(in) >= 4; in = in[4:] {
			d, b := int(in[1])%decodes, uint64(binary.LittleEndian.Uint16(in[2:]))
			said = append(said, b)
			switch in[0] % 8 {
			case 7:
				x.forget(d)
				clear(m[d])
			case 5, 6:
				x.remove(d, b)
				delete(m[d], b)
			default:
				x.add(d, b)
				m[d][b] = true
			}
		}
		same(t, x, m, said)
	})
}
