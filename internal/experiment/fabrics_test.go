package experiment

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNoMoreFabricsThanTheSetsNeed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ work, fabrics, want int }{{9, 4, 3}, {9, 8, 5}, {9, 9, 9}, {9, 3, 3}, {9, 2, 2}, {1, 1, 1}, {6, 4, 3}, {0, 1, 1}} {
		assert.Equal(t, tt.want, fewest(tt.work, tt.fabrics), "%d trials in %d fabrics", tt.work, tt.fabrics)
	}
}
