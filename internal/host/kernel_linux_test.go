package host

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCongestionControlIsAskedOfTheKernel(t *testing.T) {
	t.Parallel()
	for _, name := range CongestionControls() {
		if name == "reno" { // every kernel has it, and it needs no capability
			require.NoError(t, TryCongestionControl(name))
			assert.True(t, AnyUsersCongestionControl(name))
		}
	}
	err := TryCongestionControl("nosuch")
	require.ErrorContains(t, err, `this kernel has no "nosuch"`)
	require.ErrorContains(t, err, "reno")
	assert.True(t, AnyUsersCongestionControl(""), "the default")
	assert.False(t, AnyUsersCongestionControl("nosuch"))
}
