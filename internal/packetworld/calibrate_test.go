package packetworld

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheCalibrationEndsWhenItsMediansAreNear(t *testing.T) {
	t.Parallel()
	assert.False(t, settled([][]float64{{}}), "nothing is measured")
	assert.True(t, settled([][]float64{{-0.7}, {0.9}}))
	assert.False(t, settled([][]float64{{-0.7}, {1.1}}))
	assert.False(t, settled([][]float64{{6, -0.7}}), "the median of a disturbed round and a good one is not near")
	assert.True(t, settled([][]float64{{6, -0.7, -0.7}}))
}
