package scheduler

import "math/bits"

// index knows which decode instances hold which prefix blocks.
//
// Blocks live in a flat open-addressing table (linear probing, deletion by shifting back, at most
// half full). Each has a row of bits, one per decode instance. A prompt is matched in one walk: the
// set of instances that hold all blocks so far is intersected with the next block's row. When an
// instance leaves the set, its exact match length is known. The walk costs one probe per block and
// one visit per instance, and allocates nothing.
type index struct {
	words int // of a row
	keys  []uint64
	rows  []uint32 // row number beside each key; 0: the slot is empty
	shift uint     // 64 - log2(len(keys))
	used  int
	bits  []uint64 // rows of words; row 0 is empty
	count []int32  // holders of each row, from row 1
	spare []uint32 // rows to use again

	alive []uint64 // scratch: instances still matching
	live  []int32  // scratch: words of alive that are not 0
}

const firstSlots = 1 << 10

func newIndex(decodes int) *index {
	words := (decodes + 63) / 64
	x := &index{words: words, bits: make([]uint64, words), alive: make([]uint64, words), live: make([]int32, words)}
	x.resize(firstSlots)
	return x
}

func (x *index) resize(slots int) {
	keys, rows := x.keys, x.rows
	x.keys, x.rows = make([]uint64, slots), make([]uint32, slots)
	x.shift = uint(64 - bits.TrailingZeros(uint(slots)))
	for i, row := range rows {
		if row != 0 {
			at := x.find(keys[i])
			x.keys[at], x.rows[at] = keys[i], row
		}
	}
}

// home spreads keys over the table, sequential ids as well as hashes (the finalizer of splitmix64).
func (x *index) home(key uint64) int {
	key ^= key >> 30
	key *= 0xbf58476d1ce4e5b9
	key ^= key >> 27
	key *= 0x94d049bb133111eb
	key ^= key >> 31
	return int(key >> x.shift)
}

// find returns the slot of the key, or the empty one where it belongs.
func (x *index) find(key uint64) int {
	mask := len(x.keys) - 1
	i := x.home(key)
	for x.rows[i] != 0 && x.keys[i] != key {
		i = (i + 1) & mask
	}
	return i
}

// row returns the bits of a row.
func (x *index) row(n uint32) []uint64 { return x.bits[int(n)*x.words:][:x.words] }

// holds reports whether a decode instance is in a row.
func (x *index) holds(n uint32, decode int) bool { return x.row(n)[decode/64]>>(decode%64)&1 != 0 }

// add records that a decode instance holds the block. A second call changes nothing.
func (x *index) add(decode int, key uint64) {
	i := x.find(key)
	if x.rows[i] == 0 {
		if 2*(x.used+1) > len(x.keys) {
			x.resize(2 * len(x.keys))
			i = x.find(key)
		}
		x.keys[i], x.rows[i] = key, x.newRow()
		x.used++
	}
	if n := x.rows[i]; !x.holds(n, decode) {
		x.row(n)[decode/64] |= 1 << (decode % 64)
		x.count[n-1]++
	}
}

func (x *index) newRow() uint32 {
	if last := len(x.spare) - 1; last >= 0 {
		n := x.spare[last]
		x.spare = x.spare[:last]
		return n
	}
	x.bits = append(x.bits, make([]uint64, x.words)...)
	x.count = append(x.count, 0)
	return uint32(len(x.count))
}

// remove records that a decode instance no longer holds the block. It ignores a block that it did not hold.
func (x *index) remove(decode int, key uint64) {
	i := x.find(key)
	n := x.rows[i]
	if !x.holds(n, decode) {
		return
	}
	x.row(n)[decode/64] &^= 1 << (decode % 64)
	if x.count[n-1]--; x.count[n-1] == 0 { // no instance is left
		x.spare = append(x.spare, n)
		x.used--
		x.vacate(i)
	}
}

// vacate empties a slot and shifts back the keys that had to pass it.
func (x *index) vacate(i int) {
	mask := len(x.keys) - 1
	for j := i; ; {
		j = (j + 1) & mask
		if x.rows[j] == 0 {
			break
		}
		// Key j may move to i unless its home lies cyclically in (i, j].
		if h := x.home(x.keys[j]); (j-h)&mask >= (j-i)&mask {
			x.keys[i], x.rows[i] = x.keys[j], x.rows[j]
			i = j
		}
	}
	x.rows[i] = 0
}

// forget removes everything that a decode instance holds.
func (x *index) forget(decode int) {
	var held []uint64
	for i, n := range x.rows {
		if x.holds(n, decode) {
			held = append(held, x.keys[i])
		}
	}
	for _, key := range held {
		x.remove(decode, key)
	}
}

// match writes to depth[d] how many leading blocks each decode instance d holds.
func (x *index) match(blocks []uint64, depth []int32) {
	if len(blocks) == 0 {
		clear(depth)
		return
	}
	live := x.live[:0]
	for w := range x.words {
		x.alive[w] = ^uint64(0)
		live = append(live, int32(w))
	}
	if rest := len(depth) % 64; rest != 0 {
		x.alive[x.words-1] = 1<<rest - 1
	}
	for i := 0; len(live) > 0; i++ {
		n := uint32(0) // after the prompt nobody matches
		if i < len(blocks) {
			n = x.rows[x.find(blocks[i])]
		}
		row := x.row(n)
		kept := live[:0]
		for _, w := range live {
			was := x.alive[w]
			now := was & row[w]
			for gone := was &^ now; gone != 0; gone &= gone - 1 {
				depth[int(w)*64+bits.TrailingZeros64(gone)] = int32(i)
			}
			x.alive[w] = now
			if now != 0 {
				kept = append(kept, w)
			}
		}
		live = kept
	}
}

// depth returns how many leading blocks one decode instance holds.
func (x *index) depth(decode int, blocks []uint64) int {
	for i, key := range blocks {
		if !x.holds(x.rows[x.find(key)], decode) {
			return i
		}
	}
	return len(blocks)
}
