//go:build linux

package kernel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/fabrictest"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/scenarios"
)

func benchApply(b *testing.B, s *scenarios.Scenario) {
	plan, err := fabric.New(s, scenarios.Scale{Rate: 400, Time: 1})
	require.NoError(b, err)
	var up, gone time.Duration
	for b.Loop() {
		t0 := time.Now()
		f, err := kernel.Apply(b.Context(), "bench-a", plan, kernel.Options{})
		require.NoError(b, err)
		t1 := time.Now()
		require.NoError(b, f.Close())
		_, err = kernel.Remove(b.Context(), "bench-a", kernel.Options{})
		require.NoError(b, err)
		up += t1.Sub(t0)
		gone += time.Since(t1)
	}
	b.ReportMetric(up.Seconds()/float64(b.N), "up-s")
	b.ReportMetric(gone.Seconds()/float64(b.N), "gone-s")
}

func BenchmarkApplyTree64(b *testing.B) { benchApply(b, fabrictest.Paper64()) }
func BenchmarkApplyK8(b *testing.B)     { benchApply(b, fabrictest.KAry(8)) }
