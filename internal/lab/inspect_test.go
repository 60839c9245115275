package lab

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/fabric"
)

func TestAPortsQueueInWords(t *testing.T) {
	t.Parallel()
	for want, shape := range map[string]fabric.Shape{
		"78125B":                     {LimitBytes: 78_125, BurstBytes: 12_112},
		"128 x 64KiB":                {LimitBytes: 65_536, FlowQueues: 128},
		"156250B, marks from 30280B": {LimitBytes: 156_250, MarkBytes: 30_280},
	} {
		assert.Equal(t, want, portDetail(&shape).Text())
	}
}
