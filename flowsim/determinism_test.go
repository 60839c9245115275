package flowsim_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// fingerprint hashes the bits of all outcomes of a script.
func fingerprint(tb testing.TB, seed uint64) [32]byte {
	capacities, steps := randomScript(seed, everything)
	ends := play(tb, capacities, steps, nil)
	var b []byte
	for _, f := range started(steps) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(ends[f.ID].at))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(ends[f.ID].moved))
	}
	return sha256.Sum256(b)
}

// Not parallel: it sets GOMAXPROCS.
func TestSameInputSameBits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for seed := range uint64(20) {
		want := fingerprint(t, seed)
		for try := range 20 {
			runtime.GOMAXPROCS(1 + try%4)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { assert.Equal(t, want, fingerprint(t, seed), "script %d", seed) })
			}
			wg.Wait()
		}
	}
}
