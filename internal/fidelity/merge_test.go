package fidelity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/internal/host"
	"github.com/netkvlab/netkvlab/internal/results"
)

func TestEvidenceOfFabricsSideBySideAddsUp(t *testing.T) {
	t.Parallel()
	a := Evidence{
		Host:   host.Load{Windows: 10, Busy: 1, Idle: 0.9, Others: 0.2, SoftnetDrops: 1},
		Faults: []string{"one"}, StoodStill: time.Second, TimerLate: time.Millisecond, TimerLateOf: "p0", PortFailures: 1,
		Transport: Transport{Segments: 10, Retransmits: 1, QueueDrops: 1, SegmentsPerPacket: 2, Busy: 4, Limited: 1},
		Ports:     Ports{Excess: 0.1, ExcessAt: "x", Stray: 0.1, StrayAt: "y", StrayGot: 1, StrayWant: 2},
		Calibration: &results.Calibration{
			Lone: []results.LoneTransfers{{Tier: 2, N: 1, OffPct: -3}, {Tier: 3, N: 1, OffPct: 1}},
			Pair: &results.PairTransfers{N: 1, LastOffPct: 1, FirstOffPct: 5},
		},
	}
	b := Evidence{
		Host:   host.Load{Windows: 30, Busy: 2, Idle: 0.5, Steal: 0.4, MemoryPressure: 3},
		Faults: []string{"two"}, TimerLate: time.Minute, TimerLateOf: "d1", PortFailures: 2,
		Transport: Transport{Segments: 30, Retransmits: 2, QueueDrops: 3, SegmentsPerPacket: 4, Busy: 6, Limited: 2},
		Ports:     Ports{Excess: 0.05, ExcessAt: "z", Served: 0.8, ServedAt: "v", Stray: 0.3, StrayAt: "w", StrayGot: 5, StrayWant: 9},
		Calibration: &results.Calibration{
			Lone: []results.LoneTransfers{{Tier: 1, N: 1, OffPct: 0.5}, {Tier: 2, N: 2, OffPct: 2}, {Tier: 3, N: 1, OffPct: -4}},
			Pair: &results.PairTransfers{N: 2, LastOffPct: -2, FirstOffPct: 1},
		},
	}
	a.Merge(&b)
	assert.InDelta(t, 0.6, a.Host.Idle, 1e-12)
	assert.InDelta(t, 0.3, a.Host.Steal, 1e-12)
	a.Host.Idle, a.Host.Steal = 0, 0
	assert.Equal(t, Evidence{
		Host:   host.Load{Windows: 40, Busy: 3, Others: 0.05, SoftnetDrops: 1, MemoryPressure: 3},
		Faults: []string{"one", "two"}, StoodStill: time.Second, TimerLate: time.Minute, TimerLateOf: "d1", PortFailures: 3,
		Transport: Transport{Segments: 40, Retransmits: 3, QueueDrops: 4, SegmentsPerPacket: 4, Busy: 10, Limited: 3},
		Ports:     Ports{Excess: 0.1, ExcessAt: "x", Served: 0.8, ServedAt: "v", Stray: 0.3, StrayAt: "w", StrayGot: 5, StrayWant: 9},
		Calibration: &results.Calibration{
			Lone: []results.LoneTransfers{{Tier: 1, N: 1, OffPct: 0.5}, {Tier: 2, N: 3, OffPct: -3}, {Tier: 3, N: 2, OffPct: -4}},
			Pair: &results.PairTransfers{N: 3, LastOffPct: -2, FirstOffPct: 1},
		},
	}, a)
}

func TestMergingIntoNothingIsACopy(t *testing.T) {
	t.Parallel()
	b := Evidence{Faults: []string{"x"}, Ports: Ports{Served: 0.5, ServedAt: "p"}, Calibration: &results.Calibration{}}
	var a Evidence
	a.Merge(&b)
	assert.Equal(t, b, a)
	a.Merge(&Evidence{})
	assert.Equal(t, b, a)
}

func TestTwoTrialsOfOneFabricHaveOneCalibration(t *testing.T) {
	t.Parallel()
	c := &results.Calibration{Lone: []results.LoneTransfers{{Tier: 2, N: 5, OffPct: -3}}, Pair: &results.PairTransfers{N: 5, LastOffPct: 1}}
	var all Evidence
	for range 3 {
		all.Merge(&Evidence{Calibration: c})
	}
	assert.Equal(t, c, all.Calibration)
}
