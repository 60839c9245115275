package kernel

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"gonum.org/v1/gonum/stat/distuv"
)

// frame is an Ethernet frame of IPv4 and what follows its ports.
func frame(source, destination uint32, sport, dport uint16, more ...byte) []byte {
	f := make([]byte, 38, 38+len(more))
	f[14] = 0x45
	binary.BigEndian.PutUint32(f[26:], source)
	binary.BigEndian.PutUint32(f[30:], destination)
	binary.BigEndian.PutUint16(f[34:], sport)
	binary.BigEndian.PutUint16(f[36:], dport)
	return append(f, more...)
}

func TestAFlowKeepsItsQueueAndFlowsSpread(t *testing.T) {
	t.Parallel()
	const handle, queues, flows = 0x50 << 16, 256, 256 * 40
	var program []bpf.Instruction
	for _, i := range flowClassifier(handle, queues) {
		program = append(program, i.Disassemble())
	}
	vm, err := bpf.NewVM(program)
	require.NoError(t, err)
	queueOf := func(f []byte) int {
		class, err := vm.Run(f)
		require.NoError(t, err)
		require.Equal(t, handle, class&^0xffff)
		minor := class & 0xffff
		require.True(t, minor >= 1 && minor <= queues, "class %d", minor)
		return minor - 1
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const a, b = 10<<24 | 1, 10<<24 | 9
	for name, flow := range map[string]func(i int) []byte{
		"source ports of one pair":      func(i int) []byte { return frame(a, b, uint16(10_000+i), 5001) },
		"destination ports of one pair": func(i int) []byte { return frame(a, b, 5001, uint16(10_000+i)) },
		"pairs of one port": func(i int) []byte {
			return frame(10<<24|uint32(i/100), 10<<24|uint32(1000+i%100), 20_000, 5001)
		},
		"a few ports of many pairs": func(i int) []byte {
			return frame(10<<24|uint32(i/64/16), 10<<24|uint32(500+i/64%16), uint16(10_000+i%64), 5001)
		},
		"anything": func(int) []byte {
			return frame(rng.Uint32(), rng.Uint32(), uint16(rng.Uint32()), uint16(rng.Uint32()))
		},
	} {
		var counts [queues]float64
		for i := range flows {
			f := flow(i)
			q := queueOf(f)
			if again := queueOf(append(f, 1, 2, 3)); again != q {
				t.Fatalf("%s: another packet of the flow of queue %d went to %d", name, q, again)
			}
			counts[q]++
		}
		chi2 := 0.0
		for _, n := range counts {
			chi2 += (n - flows/queues) * (n - flows/queues) / (flows / queues)
		}
		// A more even spread than chance is good, too; a less even one is not.
		assert.Less(t, chi2, distuv.ChiSquared{K: queues - 1}.Quantile(0.9999), name)
	}
}
