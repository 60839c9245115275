//go:build linux

package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

var benchShape = fabric.Shape{Rate: 62_500_000, BurstBytes: 12_112, LimitBytes: 65_536}

// mustScratch runs fn in a namespace that ends with it.
func mustScratch(b *testing.B, fn func() error) {
	b.Helper()
	if err := Lacks("netns"); err != nil {
		b.Skip(err)
	}
	require.NoError(b, inScratch(fn)())
}

// BenchmarkTBFBatched sets and removes eight qdiscs in one send; the time is of
// one pair of requests. BenchmarkTBFLibrary does the same with
// vishvananda/netlink v1.3.1, which waits for each answer.
func BenchmarkTBFBatched(b *testing.B) {
	mustScratch(b, func() error {
		c, err := rtnl.Open()
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		var batch rtnl.Batch
		const pairs = 8
		for b.Loop() {
			batch.Reset()
			for range pairs {
				addTBF(&batch, loIndex, handleRoot, &benchShape, "lo")
				batch.Begin(unix.RTM_DELQDISC, 0, "remove tbf from", "lo")
				tcmsg(&batch, loIndex, 0, handleRoot, 0)
			}
			if err := c.Exec(&batch); err != nil {
				return err
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pairs, "ns/pair")
		return nil
	})
}

func BenchmarkTBFLibrary(b *testing.B) {
	mustScratch(b, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		rate := byteRate(benchShape.Rate)
		tbf := &netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: loIndex, Handle: rootHandle, Parent: netlink.HANDLE_ROOT},
			Rate:       rate, Limit: uint32(benchShape.LimitBytes), Buffer: ticks(benchShape.BurstBytes, rate),
		}
		for b.Loop() {
			if err := h.QdiscAdd(tbf); err != nil {
				return err
			}
			if err := h.QdiscDel(tbf); err != nil {
				return err
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/pair")
		return nil
	})
}
