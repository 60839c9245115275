package attribution

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/internal/results"
)

// sent is a completed transfer along nodes.
func sent(start, took float64, paths ...[]string) results.Record {
	r := results.Record{Status: results.Completed, TransferStartMS: start, TransferMS: took}
	for _, p := range paths {
		r.Streams = append(r.Streams, results.StreamRecord{Path: p})
	}
	return r
}

func TestTransfersMeet(t *testing.T) {
	t.Parallel()
	up := []string{"p0", "tor0", "agg0", "tor1", "d0"}
	same := []string{"p1", "tor0", "agg0", "tor1", "d1"} // shares the two links about agg0
	other := []string{"p1", "tor0", "agg1", "tor1", "d1"}
	back := []string{"d0", "tor1", "agg0", "tor0", "p0"} // the same links, the other way
	nic := sent(1, 10, []string{"p0", "tor0", "agg1", "tor1", "d1"})
	nic.Streams[0].NIC = 1
	for _, tt := range []struct {
		name          string
		first, second results.Record
		meet          bool
	}{
		{"on a link and in time", sent(0, 10, up), sent(5, 10, same), true},
		{"on one link of one stream of several", sent(0, 10, other, up), sent(5, 10, same), true},
		{"not when one has ended before", sent(0, 10, up), sent(10, 10, same), false},
		{"not on other links", sent(0, 10, up), sent(5, 10, other), false},
		{"not on the other direction of a link", sent(0, 10, up), sent(5, 10, back), false},
		{"not on another NIC of the same instance", sent(0, 10, up), nic, false},
		{"not when one did not complete", sent(0, 10, up), results.Record{Status: results.Failed, TransferStartMS: 5, TransferMS: 10, Streams: sent(0, 0, same).Streams}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rows := []results.Record{tt.second, tt.first} // the order of rows means nothing
			got := meetings(rows, rows)
			assert.Equal(t, []met{{earlier: tt.meet}, {later: tt.meet}}, got)
		})
	}
	t.Run("as long as the slower world says", func(t *testing.T) {
		t.Parallel()
		packet := []results.Record{sent(0, 4, up), sent(5, 10, same)}
		replay := []results.Record{sent(0, 10, up), sent(5, 10, same)}
		assert.Equal(t, []met{{later: true}, {earlier: true}}, meetings(packet, replay))
	})
}

func TestClassOfTransfer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want         string
		met          met
		fluid, alone float64
	}{
		{ClassAlone, met{}, 100, 100},
		{ClassUnslowed, met{earlier: true}, 100.05, 100},
		{ClassNewcomer, met{earlier: true}, 101, 100},
		{ClassIncumbent, met{later: true}, 101, 100},
		{ClassBoth, met{earlier: true, later: true}, 101, 100},
	} {
		assert.Equal(t, tt.want, classOf(tt.met, tt.fluid, tt.alone))
	}
}
