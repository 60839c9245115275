//go:build linux

package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/tc"
)

var benchShape = fabric.Shape{Rate: 62_500_000, BurstBytes: 12_112, LimitBytes: 65_536}

// mustScratch runs fn in a namespace that ends with it.
func mustScratch(b testing.TB, fn func() error) {
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
				queueing(nil, &benchShape, false).Add(&batch, loIndex, "lo")
				batch.Begin(unix.RTM_DELQDISC, 0, "remove tbf from", "lo")
				rtnl.Put(&batch, nl.TcMsg{Ifindex: loIndex, Parent: uint32(tc.Root)})
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
		bucket := tc.Bucket{Rate: byteRate(benchShape.Rate), Bytes: float64(benchShape.BurstBytes)}
		tbf := &netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: loIndex, Handle: uint32(rootHandle), Parent: netlink.HANDLE_ROOT},
			Rate:       bucket.Rate, Limit: uint32(benchShape.LimitBytes), Buffer: bucket.Ticks(),
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
