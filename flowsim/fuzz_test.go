package flowsim_test

import (
	"testing"
	"time"

	"github.com/netkvlab/netkvlab/flowsim"
)

// bytesReader returns a fuzzer's bytes, then zeros.
type bytesReader []byte

func (b *bytesReader) next() int {
	if len(*b) == 0 {
		return 0
	}
	x := (*b)[0]
	*b = (*b)[1:]
	return int(x)
}

// script reads a network of up to 8 links and up to 40 steps.
func (b *bytesReader) script() (capacities []float64, steps []step) {
	for range 1 + b.next()%8 {
		capacities = append(capacities, float64(b.next())*1e6)
	}
	now, id := 0.0, uint64(0)
	for len(*b) > 0 && len(steps) < 40 {
		op := b.next()
		now += float64(op>>4) / 8 // mostly several at one instant
		switch op & 15 {
		case 0, 1:
			victim := uint64(b.next()) % (id + 1)
			steps = append(steps, step{at: now, cancel: &victim})
		case 2, 3:
			l := flowsim.LinkIndex(b.next() % len(capacities))
			steps = append(steps, step{at: now, link: l, capacity: float64(b.next()) * 1e6})
		default:
			steps = append(steps, step{at: now, start: b.flow(id, op, len(capacities))})
			id++
		}
	}
	return capacities, steps
}

func (b *bytesReader) flow(id uint64, op, links int) *flowsim.Flow {
	f := &flowsim.Flow{ID: id, Bytes: float64(b.next()) * 1e6}
	for bits, l := b.next(), 0; bits > 0; bits, l = bits>>1, l+1 {
		if bits&1 == 1 { // with more bits than links, some are crossed twice
			f.Path = append(f.Path, flowsim.LinkIndex(l%links))
		}
	}
	switch op & 15 {
	case 4:
		f.MaxRate = float64(1+b.next()) * 1e6
	case 5:
		f.Delay = time.Duration(b.next()) * 10 * time.Millisecond
	case 6:
		for range f.Path {
			f.Weights = append(f.Weights, float64(1+b.next()%8)/8)
		}
	}
	return f
}

// FuzzWaterFilling compares every rate and end with a computation from 0 at each event.
func FuzzWaterFilling(f *testing.F) {
	f.Add([]byte("\x02\x10\x20\x30\x08\x7d\x07\x18\x7d\x03\x00\x00"))
	f.Add([]byte("\x07abcdefgh\x09i\x01\x09i\x03\x09i\x07\x14z\x0f\x25y\x3f\x06xabcd\x02aa"))
	for seed := range byte(32) {
		b := []byte{seed}
		for i := range 120 {
			b = append(b, b[len(b)-1]*37+seed*11+byte(i)*5+1)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := bytesReader(data)
		capacities, steps := b.script()
		assertSameAsSlow(t, capacities, steps)
	})
}
