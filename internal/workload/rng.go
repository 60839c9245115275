package workload

import (
	"hash/fnv"
	"math/rand/v2"
)

// The names of the random streams. A stream's draws depend only on the seed and its name, so
// that subsystems cannot change each other's draws.
const (
	streamArrivals = "arrivals"
	streamPrompts  = "prompts"
	streamOutputs  = "outputs"
	streamPrefixes = "prefixes"
	streamSpread   = "spread"
	streamDraws    = "draws"
	streamTenants  = "tenants"
)

// stream returns the named random stream of a seed.
func stream(seed uint64, name string) *rand.PCG {
	return rand.NewPCG(mix(seed), mix(hash(name)))
}

// indexed returns a separate stream for element i of a named stream: its draws do not depend on
// the elements before it.
func indexed(seed uint64, name string, i int) *rand.PCG {
	return rand.NewPCG(mix(seed), mix(hash(name)^mix(uint64(i))))
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// draws returns a request's tie-break and one path draw per stream. More streams extend the list
// and do not change its beginning.
func draws(seed uint64, id, streams int) (tieBreak uint64, paths []uint64) {
	src := indexed(seed, streamDraws, id)
	tieBreak = src.Uint64()
	paths = make([]uint64, streams)
	for i := range paths {
		paths[i] = src.Uint64()
	}
	return tieBreak, paths
}

// tenant assigns a request to one of n tenants with equal probability. With 4 tenants the
// requests of each of 2 are split in two, and so on.
func tenant(seed uint64, id, n int) int {
	if n <= 1 {
		return 0
	}
	return int(indexed(seed, streamTenants, id).Uint64() % uint64(n))
}

// mix is SplitMix64's finalizer: neighbouring seeds (1, 2, 3) give unrelated states.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
