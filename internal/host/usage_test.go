package host

import (
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUsageIsReadWhateverAProcessIsCalled(t *testing.T) {
	t.Parallel()
	dir := procOf(t, map[string]string{"42/stat": processLine(42, 120, 34)})
	u, err := UsageOf(dir, 42)
	require.NoError(t, err)
	assert.Equal(t, Usage{CPU: 1540 * time.Millisecond, ResidentBytes: 3 * int64(os.Getpagesize())}, u)
	_, err = UsageOf(dir, 43)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
